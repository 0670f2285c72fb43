/* SPDX-License-Identifier: Apache-2.0
 *
 * syntax.h: lines, words, quotes and comments of wsd.conf. [any]
 *
 * A comment begins with # or ; at the beginning of a line, or with ; behind a blank. Where quotes count, a blank and a
 * ; within them do not; quotes and escapes are those of systemd.service(5), "Command lines".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SYNTAX_LINE_MAX (1u << 20) /* bytes of a line */
#define SYNTAX_SECTION  49u        /* of the name of a section */

/* A key, and what stands behind its = up to the end of the line, which may be changed. 0, or a negative errno with the
 * reason. */
typedef int (*syntax_on_key)(void *userdata, unsigned line, const char *section, const char *key, char *value,
                             char *why, size_t size);

/* Reads all lines. 0, or a negative errno with `PATH:LINE: why` in error. */
int syntax_read(FILE *file, const char *path, syntax_on_key on_key, void *userdata, char *error, size_t size);

/* In place, without the comment and the blanks around it. quotes: they count anywhere; else only where the value begins
 * with one. */
void syntax_trim(char *value, bool quotes);
/* In place, where it begins with a quote: what is in it. 0; -ENOMEM; -EINVAL, where the quote has no end or is not all
 * of it, and the value is as it was. */
int syntax_unquote(char *value);

/* The words of a text, each with a NUL behind it; the caller frees. 0, -ENOMEM, or -EINVAL: a quote is open, or a
 * \ stands at the end. */
int syntax_words(const char *text, char **ret_words, size_t *ret_size, uint32_t *ret_n);
/* As syntax_words() reads it. */
void syntax_print_word(const char *word, FILE *to);
/* As syntax_trim() and syntax_unquote() read it. */
void syntax_print_value(const char *value, FILE *to);
