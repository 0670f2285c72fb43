/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c: the hash table of hash.h.
 * Owns the bucket array; never the members. [one thread]
 * Keeps: every link is in the bucket of its key.
 * Does not compare members, order them or shrink. */
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>

#define HASH_START 64u
#define HASH_LOAD  2u /* links a bucket: a longer walk now and then, and half the memory for tables of millions */

static int grow(struct hash *h)
{
    size_t n = h->n_buckets ? h->n_buckets * 2 : HASH_START;
    struct hash_link **buckets = calloc(n, sizeof(struct hash_link *));

    if (!buckets)
        return h->n_buckets ? 0 : -ENOMEM;
    for (size_t i = 0; i < h->n_buckets; i++)
        for (struct hash_link *l = h->buckets[i], *next; l; l = next) {
            next = l->next;
            l->next = buckets[l->key & (n - 1)];
            buckets[l->key & (n - 1)] = l;
        }
    free(h->buckets);
    h->buckets = buckets;
    h->n_buckets = n;
    return 0;
}

int hash_insert(struct hash *h, struct hash_link *link, uint64_t key)
{
    if (h->n >= h->n_buckets * HASH_LOAD) {
        int r = grow(h);

        if (r < 0)
            return r;
    }
    struct hash_link **bucket = &h->buckets[key & (h->n_buckets - 1)];
    link->key = key;
    link->next = *bucket;
    *bucket = link;
    h->n++;
    return 0;
}

void hash_remove(struct hash *h, struct hash_link *link)
{
    for (struct hash_link **l = &h->buckets[link->key & (h->n_buckets - 1)]; *l; l = &(*l)->next)
        if (*l == link) {
            *l = link->next;
            h->n--;
            return;
        }
}

struct hash_link *hash_first(const struct hash *h, uint64_t key)
{
    if (!h->n_buckets)
        return NULL;
    for (struct hash_link *l = h->buckets[key & (h->n_buckets - 1)]; l; l = l->next)
        if (l->key == key)
            return l;
    return NULL;
}

struct hash_link *hash_next(const struct hash_link *link)
{
    for (struct hash_link *l = link->next; l; l = l->next)
        if (l->key == link->key)
            return l;
    return NULL;
}

static size_t reversed(size_t x)
{
    size_t r = 0;

    for (unsigned i = 0; i < sizeof(x) * 8; i++, x >>= 1)
        r = r << 1 | (x & 1);
    return r;
}

struct hash_link *hash_walk(const struct hash *h, size_t *cursor)
{
    struct hash_link *first;

    if (!h->n_buckets)
        return NULL;
    first = h->buckets[*cursor & (h->n_buckets - 1)];
    /* Counted from the highest bit of the index down: a bucket that is split by a doubling has both of its halves on the same
     * side of the cursor, so that none is met twice or passed over. */
    *cursor = reversed(reversed(*cursor | ~(h->n_buckets - 1)) + 1);
    return first;
}

void hash_deinit(struct hash *h)
{
    free(h->buckets);
    h->buckets = NULL;
    h->n_buckets = h->n = 0;
}
