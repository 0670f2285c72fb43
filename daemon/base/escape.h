/* SPDX-License-Identifier: Apache-2.0
 *
 * escape.h: text of others, on its way to a terminal or a log. [any]
 * What a terminal does not simply show in its place is written as an escape: `\x1b` for a byte, `\u{202e}` for a
 * character. Those are control characters (C0 but for tab, DEL, C1), bytes that are no UTF-8, line and paragraph
 * separators, and what is invisible or turns the direction of what follows.
 * What is printable stays as it is, a backslash too: text that was escaped once is escaped text again, unchanged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ESCAPE_ROOM 16u /* bytes that one character takes at most, with NUL */

/* The first character of a text: its length in bytes, 0 where no UTF-8 (RFC 3629) begins there. The text ends with a
 * NUL, which is a character of its own. */
size_t escape_character(const char *text, uint32_t *ret);
/* Whether a character is shown as it is. */
bool escape_printable(uint32_t character);
/* Writes what is shown of the first character of a text. Returns how many bytes of the text that was: 0 at its end
 * only. */
size_t escape_first(char to[static ESCAPE_ROOM], const char *text);
/* Writes what is shown of a whole text: one line. It is cut before the first character or escape that does not fit.
 * Returns its length. */
size_t escape_text(char *to, size_t room, const char *text);
/* The same with the ends of its lines left as they are. */
size_t escape_lines(char *to, size_t room, const char *text);
