/* SPDX-License-Identifier: Apache-2.0
 *
 * slab.c: cells of one size.
 * Owns its blocks until they are freed.
 * Keeps: a block with free cells is in one of the two lists; one without is in none. */
#include "base/slab.h"

#include <stdbool.h>
#include <stdlib.h>

#define CELLS_LEAST 4u /* of a block */

struct cell {
    struct slab_block *block; /* NULL: of none */
    struct cell *next;        /* free ones of the block. What is given out begins here */
};

struct slab_block {
    struct slab_block *prev, *next; /* of the list; the first one's prev is NULL */
    struct slab *slab;
    struct cell *free;
    uint32_t size; /* of a cell */
    uint16_t n, n_used;
    uint16_t n_cut; /* that were used ever */
};

static void link_block(struct slab_block **list, struct slab_block *b)
{
    b->prev = NULL;
    b->next = *list;
    if (b->next)
        b->next->prev = b;
    *list = b;
}

static void unlink_block(struct slab_block **list, struct slab_block *b)
{
    if (b->prev)
        b->prev->next = b->next;
    else
        *list = b->next;
    if (b->next)
        b->next->prev = b->prev;
}

/* Twice as large as the last one. */
static struct slab_block *block_new(struct slab *s, size_t size)
{
    size_t bytes = s->block ? 2 * (s->block + 8u) - 8 : SLAB_LEAST; /* 8: of malloc() */

    if (bytes > SLAB_MOST)
        bytes = SLAB_MOST;
    size_t n = (bytes - sizeof(struct slab_block)) / size;
    n = n < CELLS_LEAST ? CELLS_LEAST : n;
    struct slab_block *b = malloc(sizeof(*b) + n * size);
    if (!b)
        return NULL;
    *b = (struct slab_block){.slab = s, .size = (uint32_t)size, .n = (uint16_t)n};
    s->block = (uint32_t)bytes;
    return b;
}

/* One with a free cell, in the list of those. */
static struct slab_block *get_block(struct slab *s, size_t size)
{
    struct slab_block *b = s->empty;

    if (b) {
        unlink_block(&s->empty, b);
        s->n_kept -= b->n;
    } else {
        b = block_new(s, size);
    }
    if (b)
        link_block(&s->partial, b);
    return b;
}

static struct cell *cut(struct slab_block *b)
{
    struct cell *c = (struct cell *)(void *)((char *)(b + 1) + (size_t)b->n_cut++ * b->size);

    c->block = b;
    return c;
}

static void *take_alone(size_t size)
{
    struct cell *c = malloc(size);

    if (!c)
        return NULL;
    c->block = NULL;
    return &c->next;
}

void *slab_take(struct slab *s, size_t size)
{
    size_t whole = (offsetof(struct cell, next) + (size < sizeof(void *) ? sizeof(void *) : size) + 7) / 8 * 8;

    if (!s || SLAB_MOST == 0)
        return take_alone(whole);
    struct slab_block *b = s->partial ? s->partial : get_block(s, whole);
    if (!b)
        return NULL;
    struct cell *c = b->free;
    if (c)
        b->free = c->next;
    else
        c = cut(b);
    if (++b->n_used == b->n)
        unlink_block(&s->partial, b);
    return &c->next;
}

/* Its last cell came back. */
static void keep_or_free(struct slab_block *b)
{
    struct slab *s = b->slab;

    unlink_block(&s->partial, b);
    if (s->n_kept + b->n > SLAB_KEPT) {
        free(b);
        return;
    }
    link_block(&s->empty, b);
    s->n_kept += b->n;
}

void slab_give(void *cell)
{
    if (!cell)
        return;
    struct cell *c = (struct cell *)(void *)((char *)cell - offsetof(struct cell, next));
    struct slab_block *b = c->block;
    if (!b) {
        free(c);
        return;
    }
    if (b->n_used-- == b->n)
        link_block(&b->slab->partial, b);
    c->next = b->free;
    b->free = c;
    if (b->n_used == 0)
        keep_or_free(b);
}

void slab_trim(struct slab *s)
{
    while (s->empty) {
        struct slab_block *b = s->empty;

        unlink_block(&s->empty, b);
        free(b);
    }
    s->n_kept = s->block = 0;
}
