/* SPDX-License-Identifier: Apache-2.0
 *
 * svg.c: text in an SVG file. */
#include "svg.h"

void svg_escape(FILE *to, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        switch (text[i]) {
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '&':
            fputs("&amp;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            putc(text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?', to);
        }
    }
}
