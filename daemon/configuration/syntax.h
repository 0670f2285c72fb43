/* SPDX-License-Identifier: Apache-2.0
 *
 * syntax.h: lines, words, quotes and comments of wsd.conf. [any]
 *
 * A comment begins with # or ; at the beginning of a line, or with ; after a blank. Where quotes count, blanks and ;
 * inside quotes are plain text. Quotes and escapes are those of systemd.service(5), "Command lines".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SYNTAX_LINE_MAX (1u << 20) /* bytes of a line */
#define SYNTAX_SECTION  49u        /* bytes of a section's name, with its NUL */

/* Takes a key and the text after its = to the end of the line, which it may change. Returns 0, or a negative errno with
 * the reason. */
typedef int (*syntax_on_key)(void *userdata, unsigned line, const char *section, const char *key, char *value,
                             char *why, size_t size);

/* Reads all lines. Returns 0, or a negative errno with `PATH:LINE: why` in error. */
int syntax_read(FILE *file, const char *path, syntax_on_key on_key, void *userdata, char *error, size_t size);

/* Removes the comment and the blanks around the value, in place. quotes: they count anywhere; else only in a value that
 * begins with one. */
void syntax_trim(char *value, bool quotes);
/* Removes the quotes of a value that begins with one, in place. Returns 0; -ENOMEM; -EINVAL: the quote has no end, or
 * text follows it; then the value is unchanged. */
int syntax_unquote(char *value);

/* Splits a text into words, each with its NUL; the caller frees. Returns 0, -ENOMEM, or -EINVAL: a quote is open, or a
 * \ stands at the end. */
int syntax_words(const char *text, char **ret_words, size_t *ret_size, uint32_t *ret_n);
/* Prints a word as syntax_words() reads it. */
void syntax_print_word(const char *word, FILE *to);
/* Prints a value as syntax_trim() and syntax_unquote() read it. */
void syntax_print_value(const char *value, FILE *to);
