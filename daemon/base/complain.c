/* SPDX-License-Identifier: Apache-2.0
 *
 * complain.c: what a program says on stderr before it runs.
 * Owns nothing. */
#include "base/complain.h"

#include <errno.h>
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
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, clean);
}
