/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c: the hash table of hash.h.
 * Owns the bucket array; never the members. [one thread]
 * Keeps: every link is in the bucket of its key.
 * Does not compare members or order them. */
#include "base/hash.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"

#define HASH_START 64u
#define AHEAD      ARRAY_SIZE(((struct hash *)0)->ahead)
#define HASH_LOAD  2u /* links a bucket: a longer walk now and then, and half the memory for tables of millions */

/* --- keyed hashes ------------------------------------------------------------------------------------------------- */

static uint64_t secret[2]; /* [const after hash_seed] */

int hash_seed(void)
{
    ssize_t n = getrandom(secret, sizeof(secret), 0);

    return n == (ssize_t)sizeof(secret) ? 0 : n < 0 ? -errno : -EIO;
}

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotated(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotated(s->v1, 13) ^ s->v0;
    s->v0 = rotated(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotated(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotated(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotated(s->v1, 17) ^ s->v2;
    s->v2 = rotated(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

uint64_t hash_text(uint64_t seed, const char *text, size_t n)
{
    struct sip s = {secret[0] ^ 0x736f6d6570736575u, secret[1] ^ 0x646f72616e646f6du, secret[0] ^ 0x6c7967656e657261u,
                    secret[1] ^ 0x7465646279746573u};
    size_t whole = n - n % sizeof(uint64_t);
    uint64_t word = 0;

    sip_word(&s, seed);
    for (size_t i = 0; i < whole; i += sizeof(word)) {
        memcpy(&word, text + i, sizeof(word));
        sip_word(&s, le64toh(word));
    }
    word = 0;
    memcpy(&word, text + whole, n - whole);
    sip_word(&s, le64toh(word) | (uint64_t)(sizeof(seed) + n) << 56);
    s.v2 ^= 0xff;
    for (unsigned i = 0; i < 3; i++)
        sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

uint64_t hash_number(uint64_t x)
{
    return hash_text(x, "", 0);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* Of the array: the power of two that the buckets fill or are about to fill. */
static size_t mask_of(const struct hash *h)
{
    return ~(size_t)0 >> __builtin_clzl(h->n_buckets - 1);
}

/* Those behind the last bucket are still in the one that they will be split from. */
static struct hash_link **bucket_of(const struct hash *h, uint64_t key)
{
    size_t mask = mask_of(h), i = key & mask;

    return &h->buckets[i < h->n_buckets ? i : i & mask >> 1];
}

/* Links that will be split soon are old, and out of the cache. So each insert prefetches the next link of two coming
 * chains. A chain of four, the longest usual one, is then in the cache when its turn comes two splits later. */
static void look_ahead(struct hash *h, size_t from, size_t end)
{
    size_t i = from + AHEAD;

    h->ahead[i % AHEAD] = i < end ? h->buckets[i] : NULL;
    if (h->ahead[i % AHEAD])
        __builtin_prefetch(h->ahead[i % AHEAD]);
}

static void go_ahead(struct hash *h)
{
    for (size_t i = 0; i < AHEAD; i++)
        if (h->ahead[i]) {
            h->ahead[i] = h->ahead[i]->next;
            __builtin_prefetch(h->ahead[i]);
        }
}

/* Linear hashing (Litwin 1980): one bucket more, split from the first one that has not been since the array doubled. So
 * no insert pays for all links; realloc() moves a large array by its page tables. */
static int add_bucket(struct hash *h)
{
    size_t n = h->n_buckets;

    if (!n) {
        h->buckets = calloc(HASH_START, sizeof(struct hash_link *));
        h->n_buckets = h->buckets ? HASH_START : 0;
        return h->buckets ? 0 : -ENOMEM;
    }
    if (!(n & (n - 1))) {
        struct hash_link **buckets = reallocarray(h->buckets, n * 2, sizeof(struct hash_link *));

        if (!buckets)
            return 0;
        h->buckets = buckets;
    }
    h->n_buckets++;
    size_t bit = (mask_of(h) >> 1) + 1;
    struct hash_link **low = &h->buckets[n - bit], **high = &h->buckets[n];
    look_ahead(h, n - bit, bit);
    for (struct hash_link *l = *low; l; l = l->next) {
        struct hash_link ***side = l->key & bit ? &high : &low;

        **side = l;
        *side = &l->next;
    }
    *low = *high = NULL;
    return 0;
}

int hash_insert(struct hash *h, struct hash_link *link, uint64_t key)
{
    go_ahead(h);
    if (h->n >= h->n_buckets * HASH_LOAD) {
        int r = add_bucket(h);

        if (r < 0)
            return r;
    }
    struct hash_link **bucket = bucket_of(h, key);
    link->key = key;
    link->next = *bucket;
    *bucket = link;
    h->n++;
    return 0;
}

void hash_remove(struct hash *h, struct hash_link *link)
{
    if (h->n_buckets == 0) /* it was not put in for want of memory */
        return;
    for (size_t i = 0; i < AHEAD; i++)
        if (h->ahead[i] == link)
            h->ahead[i] = link->next;
    for (struct hash_link **l = bucket_of(h, link->key); *l; l = &(*l)->next)
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
    for (struct hash_link *l = *bucket_of(h, key); l; l = l->next)
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
    size_t mask, i;

    if (!h->n_buckets)
        return NULL;
    mask = mask_of(h);
    i = *cursor & mask;
    if ((i & mask >> 1) + (mask >> 1) + 1 >= h->n_buckets) { /* not split yet: both halves */
        mask >>= 1;
        i &= mask;
    }
    /* Counts from the highest bit of the index down. Both halves of a bucket that is split are then on the same side of
     * the cursor, so that none is met twice or passed over. */
    *cursor = reversed(reversed(*cursor | ~mask) + 1);
    return h->buckets[i];
}

bool hash_shrink(struct hash *h, size_t steps)
{
    size_t least = MAX(h->n / HASH_LOAD * 2, (size_t)HASH_START), before = h->n_buckets;

    if (before / 2 <= least)
        return false;
    for (size_t i = 0; i < AHEAD; i++)
        h->ahead[i] = NULL;
    for (; steps && h->n_buckets > least; steps--) { /* add_bucket(), backwards */
        size_t last = h->n_buckets - 1;
        struct hash_link **low = &h->buckets[last - ((mask_of(h) >> 1) + 1)];

        while (*low)
            low = &(*low)->next;
        *low = h->buckets[last];
        h->n_buckets--;
    }
    size_t room = mask_of(h) + 1;
    if (room <= before / 2) {
        struct hash_link **buckets = reallocarray(h->buckets, room, sizeof(struct hash_link *));

        h->buckets = buckets ? buckets : h->buckets;
    }
    return h->n_buckets > least;
}

void hash_deinit(struct hash *h)
{
    free(h->buckets);
    *h = (struct hash){0};
}
