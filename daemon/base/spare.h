/* SPDX-License-Identifier: Apache-2.0
 *
 * spare.h: blocks of one size that were freed, for those that come next. glibc keeps seven of a size apart and joins the others
 * with their neighbours, only to cut them again; what comes and goes in hundreds, between things that stay, costs that twice. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#define SPARES_MAX 0u /* the sanitizer is to see what is used after its end */
#else
#define SPARES_MAX 512u
#endif

struct spare {
    struct spare *next;
};

struct spares {
    struct spare *first;
    uint32_t n;
};

/* One of them, not zeroed, or a new one; NULL: no memory. All blocks of one struct spares have one size. */
static inline void *spares_take(struct spares *s, size_t size)
{
    struct spare *block = s->first;

    if (!block)
        return malloc(size);
    s->first = block->next;
    s->n--;
    return block;
}

/* Instead of free(); NULL is none. */
static inline void spares_give(struct spares *s, void *p)
{
    struct spare *block = p;

    if (!block || s->n + 1 > SPARES_MAX) { /* `n >= 0` is always true, and gcc says so */
        free(block);
        return;
    }
    block->next = s->first;
    s->first = block;
    s->n++;
}

static inline void spares_deinit(struct spares *s)
{
    while (s->n)
        free(spares_take(s, 0));
}
