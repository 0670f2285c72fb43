/* SPDX-License-Identifier: Apache-2.0
 *
 * text.c: the plugin `text`, equal to uniq, sort | uniq -c, and join in the C locale.
 * Each function is a file of its own: unique.c, frequency.c, join.c. All work on lines in parallel, and write them in
 * order through a pipeline. */
#include "plugins/text.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define NUMBER_WIDTH 7
#define NUMBER_MAX   24 /* bytes of a number with its blanks, and of the newline */

/* Right-aligned, with a blank behind it; returns its end. */
static char *put_number(char *to, uint64_t n)
{
    char digits[20];
    size_t size = 0;

    do
        digits[size++] = (char)('0' + n % 10);
    while (n /= 10);
    for (size_t i = size; i < NUMBER_WIDTH; i++)
        *to++ = ' ';
    while (size)
        *to++ = digits[--size];
    *to++ = ' ';
    return to;
}

int text_put_line(struct buffer *text, uint64_t n, const char *line, size_t size)
{
    char *to = buffer_room(text, NUMBER_MAX + size);

    if (!to)
        return -ENOMEM;
    if (n)
        to = put_number(to, n);
    memcpy(to, line, size);
    to[size] = '\n';
    text->size = (size_t)(to + size + 1 - text->data);
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "unique",
     .help = "[-cdu] [FILE]: each line that differs from the one before it, like uniq in the C locale",
     .flags = WSD_FN_IDEMPOTENT,
     .run = text_unique},
    {.name = "frequency",
     .help = "[FILE]...: how often each line is there, like sort | uniq -c in the C locale",
     .flags = WSD_FN_IDEMPOTENT,
     .run = text_frequency},
    {.name = "join",
     .help = "[-a N] [-v N] [-t CHAR] [-1 FIELD] [-2 FIELD] FILE1 FILE2: like join in the C locale",
     .flags = WSD_FN_IDEMPOTENT,
     .run = text_join},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "text", .version = "0.1.0",
           .help = "compares and counts lines of files or the input, as uniq, sort | uniq -c and join do");
