/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h: an intrusive hash table: chained; grows by one bucket at a time, shrinks on request. The caller compares. The
 * table knows only 64-bit keys, which should be well mixed. Use hash_mix() for numbers that this process makes, and
 * hash_number() or hash_text() for all that others choose.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_link {
    uint64_t key; /* first: an object that has the key in its own bytes, such as an id, may overlap the two */
    struct hash_link *next;
};

struct hash {
    struct hash_link **buckets;
    size_t n_buckets; /* 0 before the first insert */
    size_t n;
    struct hash_link *ahead[2]; /* see look_ahead() */
};

static inline uint64_t hash_mix(uint64_t x)
{
    /* the finalizer of splitmix64 (Steele, Lea, Flood 2014) */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Keyed hashes, for every table with keys that a client or a plugin chooses. Without the secret of this process, keys
 * that fall into one bucket cannot be found. The hash is SipHash-1-3 (Aumasson and Bernstein 2012, with fewer rounds as
 * in Rust's and Python's tables). hash_seed() draws the secret from the kernel, once, before the first table. Until
 * then it is zero, as in unit tests. Returns 0 or a negative errno. [main, before threads] */
int hash_seed(void);
/* Hashes the eight bytes of `seed`, lowest first, then n bytes of text. `seed` may be another hash. [any] */
uint64_t hash_text(uint64_t seed, const char *text, size_t n);
/* Hashes a number: hash_text(x, "", 0). [any] */
uint64_t hash_number(uint64_t x);

/* Inserts a link; equal keys may coexist. 0 or -ENOMEM (only at the first growth; a table that cannot grow further just
 * gets slower). */
int hash_insert(struct hash *h, struct hash_link *link, uint64_t key);
void hash_remove(struct hash *h, struct hash_link *link);
/* The first link with the key, and the next one. */
struct hash_link *hash_first(const struct hash *h, uint64_t key);
struct hash_link *hash_next(const struct hash_link *link);
/* Walks a table that may change between calls, one bucket a call. *cursor starts at 0, and is 0 again after the last
 * bucket. Returns the first link of the bucket, or NULL if it is empty; ->next leads through it. A link that stays in
 * the table is met once; one that comes or goes meanwhile is met once or not at all. */
struct hash_link *hash_walk(const struct hash *h, size_t *cursor);
/* Frees buckets that the present links do not need, `steps` at most. True: there are more to free. Not between two
 * calls of one hash_walk(). */
bool hash_shrink(struct hash *h, size_t steps);
void hash_deinit(struct hash *h);
