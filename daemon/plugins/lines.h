/* SPDX-License-Identifier: Apache-2.0
 *
 * lines.h: lines of text in memory, and their order by bytes.
 * lines_sort() [a task]; the others [any].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wsd/plugin.h"

struct line {
    const char *data;
    size_t size;  /* without the newline */
    uint64_t key; /* the first 8 bytes as a number, zeroes behind a shorter line: most comparisons end here */
};

/* memcmp() order, a line before those that it begins. */
static inline int line_compare(const struct line *a, const struct line *b)
{
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;

    size_t n = a->size < b->size ? a->size : b->size;
    int r = n > 8 ? memcmp(a->data + 8, b->data + 8, n - 8) : 0;

    return r ? r : (a->size > b->size) - (a->size < b->size);
}

/* Lines in the text; what follows the last newline is one too. */
size_t lines_count(const char *data, size_t size);

/* Size of the first whole lines that are more than `wanted` bytes, with their newline; all where they are fewer. */
static inline size_t lines_cut(const char *data, size_t size, size_t wanted)
{
    const char *newline = wanted < size ? (const char *)memchr(data + wanted, '\n', size - wanted) : NULL;

    return newline ? (size_t)(newline - data) + 1 : size;
}

/* What the order by bytes looks at first: the first 8 bytes as a number. */
static inline uint64_t line_key(const char *data, size_t size)
{
    uint64_t key = 0;

    memcpy(&key, data, size < 8 ? size : 8);
    return __builtin_bswap64(key);
}

/* Room for n lines, which the caller frees; NULL: out of memory. */
struct line *lines_new(size_t n);

/* Fills lines_count() entries. Returns false where there are not so many any longer: text that others may write to. */
bool lines_find(const char *data, size_t size, struct line *ret_lines, size_t n);

/* Sorts by forking; spare has room for as many. False where the job was cancelled on the way. */
bool lines_sort(struct wsd_worker *self, struct wsd_job *job, struct line *lines, struct line *spare, size_t n);
