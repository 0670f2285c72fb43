/* SPDX-License-Identifier: Apache-2.0
 *
 * freelist.h: keeps freed blocks of one size for reuse. glibc keeps only seven of a size, and merges the others with
 * their neighbours, only to split them again. Blocks that come and go in hundreds, between others that stay, pay for
 * that twice.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#define FREELIST_MAX 0u /* off, so that the sanitizer sees uses after free */
#else
#define FREELIST_MAX 512u
#endif

struct free_block {
    struct free_block *next;
};

struct freelist {
    struct free_block *first;
    uint32_t n;
};

/* Takes a kept block, not zeroed, or a new one; NULL: no memory. All blocks of one struct freelist have one size. */
static inline void *freelist_take(struct freelist *s, size_t size)
{
    struct free_block *block = s->first;

    if (!block)
        return malloc(size);
    s->first = block->next;
    s->n--;
    return block;
}

/* Use instead of free(). NULL is fine. */
static inline void freelist_give(struct freelist *s, void *p)
{
    struct free_block *block = p;

    if (!block || s->n + 1 > FREELIST_MAX) { /* `n >= 0` is always true, and gcc says so */
        free(block);
        return;
    }
    block->next = s->first;
    s->first = block;
    s->n++;
}

static inline void freelist_deinit(struct freelist *s)
{
    while (s->n)
        free(freelist_take(s, 0));
}
