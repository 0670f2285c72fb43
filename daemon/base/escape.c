/* SPDX-License-Identifier: Apache-2.0
 *
 * escape.c: shows text that may hold anything.
 * Owns nothing.
 * Keeps: what comes out is printable UTF-8, tabs and, where they are wanted, ends of lines; shown again, it stays as it
 * is.
 * Does not ask the locale: what is printable is the same for a daemon and for each of its clients. */
#include "base/escape.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* In order. No private-use or unassigned characters: a terminal shows those as boxes. */
static const struct {
    uint32_t first, last;
} hidden[] = {
    {0x0, 0x8},       {0xa, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x61c, 0x61c},
    {0x115f, 0x1160}, {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f}, {0x3164, 0x3164},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
    {0xfffe, 0xffff}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

size_t escape_character(const char *text, uint32_t *ret)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
               : (p[0] & 0xf0) == 0xe0       ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;
    uint32_t character = n > 1 ? p[0] & (0xffu >> (n + 1)) : p[0];

    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        character = character << 6 | (p[i] & 0x3fu);
    }
    if ((n == 3 && (character < 0x800 || (character >= 0xd800 && character <= 0xdfff))) ||
        (n == 4 && (character < 0x10000 || character > 0x10ffff)))
        return 0;
    *ret = character;
    return n;
}

bool escape_printable(uint32_t character)
{
    for (size_t i = 0; i < ARRAY_SIZE(hidden) && hidden[i].first <= character; i++)
        if (character <= hidden[i].last)
            return false;
    return true;
}

size_t escape_first(char to[static ESCAPE_ROOM], const char *text)
{
    uint32_t character = 0;
    size_t n = escape_character(text, &character);

    if (!*text)
        *to = 0;
    else if (n == 0 || (n == 1 && !escape_printable(character)))
        snprintf(to, ESCAPE_ROOM, "\\x%02x", (unsigned char)*text);
    else if (!escape_printable(character))
        snprintf(to, ESCAPE_ROOM, "\\u{%x}", character);
    else
        snprintf(to, ESCAPE_ROOM, "%.*s", (int)n, text);
    return *text ? MAX(n, (size_t)1) : 0;
}

/* *ret_left: what had no room; "": none. */
static size_t escape(char *to, size_t room, const char *text, bool lines, const char **ret_left)
{
    char shown[ESCAPE_ROOM];
    size_t at = 0, taken;

    for (; *text; text += taken) {
        /* the common case, and what is asked for */
        if ((*text >= ' ' && *text < 0x7f) || (lines && *text == '\n')) {
            shown[0] = *text;
            shown[1] = 0;
            taken = 1;
        } else {
            taken = escape_first(shown, text);
        }
        size_t n = strlen(shown);

        if (at + n >= room)
            break;
        memcpy(to + at, shown, n);
        at += n;
    }
    to[at] = 0;
    *ret_left = text;
    return at;
}

size_t escape_text(char *to, size_t room, const char *text)
{
    const char *left;

    return escape(to, room, text, false, &left);
}

size_t escape_marked(char *to, size_t room, const char *text)
{
    const char *left;
    size_t n = escape(to, room, text, false, &left);

    if (!*left)
        return n;
    n = escape(to, room - strlen(ESCAPE_MARK), text, false, &left);
    memcpy(to + n, ESCAPE_MARK, sizeof(ESCAPE_MARK));
    return n + strlen(ESCAPE_MARK);
}

size_t escape_lines(char *to, size_t room, const char *text)
{
    const char *left;

    return escape(to, room, text, true, &left);
}

void escape_format(char to[static ESCAPE_LINE], const char *format, va_list args)
{
    char text[ESCAPE_LINE + 4]; /* so that a character that does not fit is whole */

    if (vsnprintf(text, sizeof(text), format, args) < 0)
        *text = 0;
    for (char *c = text; *c; c++)
        if (strchr("\t\n\v\f\r", *c))
            *c = ' ';
    escape_text(to, ESCAPE_LINE, text);
}
