/* SPDX-License-Identifier: Apache-2.0
 *
 * escape.h: makes foreign text safe for a terminal or a log. [any]
 * What a terminal would not simply display is written as an escape. It is `\x1b` for a byte, `\u{202e}` for a
 * character.
 * Escaped are control characters (C0 except tab, DEL, C1), bytes that are not UTF-8, line and paragraph separators,
 * invisible characters, and those that change the direction of text.
 * Printable text stays as it is, backslashes too. So escaping text a second time does not change it.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ESCAPE_ROOM 16u /* bytes that one character takes at most, with NUL */

/* Decodes the first character of a text. Returns its length in bytes; 0 if no UTF-8 (RFC 3629) begins there. The text
 * ends with a NUL, which is a character of its own. */
size_t escape_character(const char *text, uint32_t *ret);
/* Whether a character is shown as it is. */
bool escape_printable(uint32_t character);
/* Writes the displayed form of the first character of a text. Returns how many bytes of the text it took: 0 only at the
 * end. */
size_t escape_first(char to[static ESCAPE_ROOM], const char *text);
/* Writes the displayed form of a whole text: one line. It is cut before the first character or escape that does not
 * fit. Returns its length. */
size_t escape_text(char *to, size_t room, const char *text);
#define ESCAPE_MARK "\u2026"
/* The same, and where the text is cut ESCAPE_MARK is its end, within the room, which is more than that takes. */
size_t escape_marked(char *to, size_t room, const char *text);
#define ESCAPE_LINE 256u /* bytes of what a job says of itself, with NUL: WSD_TEXT_MAX */
/* Writes what a job says, formatted: one line, in which line ends and tabs are blanks. */
__attribute__((format(printf, 2, 0))) void escape_format(char to[static ESCAPE_LINE], const char *format, va_list args);
/* The same as escape_text(), but keeps newlines as they are. */
size_t escape_lines(char *to, size_t room, const char *text);
