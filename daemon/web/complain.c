/* SPDX-License-Identifier: Apache-2.0
 *
 * complain.c: what wsd-web says on stderr.
 * Owns nothing. */
#include "web/complain.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/escape.h"

void complain(const char *format, ...)
{
    char words[1024], clean[4 * sizeof(words)];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    escape_text(clean, sizeof(clean), words);
    fprintf(stderr, "wsd-web: %s\n", clean);
}
