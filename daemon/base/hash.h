/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h: an intrusive hash table: chained, grows by a bucket at a time, shrinks when it is told to. The user compares;
 * the table knows only 64-bit keys, which should be well mixed: hash_mix() for numbers that this process makes,
 * hash_number() and hash_text() for all that others choose.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_link {
    uint64_t key; /* first: who has it in his own bytes, such as an id, may let the two lie over each other */
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

/* Keyed hashes, for every table whose keys a client or a plugin chooses: without the secret of this process nobody
 * finds keys that fall into one bucket (SipHash-1-3: Aumasson and Bernstein 2012, fewer rounds as in Rust's and
 * Python's tables). hash_seed() draws the secret from the kernel, once, before the first table; until then it is zero,
 * as in unit tests.
 * Returns 0 or a negative errno. [main, before threads] */
int hash_seed(void);
/* Of the eight bytes of `seed`, lowest first, and of the n bytes behind them; `seed` may be another hash. [any] */
uint64_t hash_text(uint64_t seed, const char *text, size_t n);
/* Of a number: hash_text(x, "", 0). [any] */
uint64_t hash_number(uint64_t x);

/* Puts a link in; equal keys may stand beside each other. 0 or -ENOMEM (only while it grows from nothing; a table that
 * cannot grow further just gets slower). */
int hash_insert(struct hash *h, struct hash_link *link, uint64_t key);
void hash_remove(struct hash *h, struct hash_link *link);
/* The first link with the key, and the next one. */
struct hash_link *hash_first(const struct hash *h, uint64_t key);
struct hash_link *hash_next(const struct hash_link *link);
/* Walks a table that may change between two calls, one bucket a call: *cursor begins with 0, and is 0 again behind the
 * last one.
 * Returns the first link of the bucket, NULL where it is empty; ->next leads through it. What is in the table all the
 * time is met once, what comes or goes meanwhile once or not at all. */
struct hash_link *hash_walk(const struct hash *h, size_t *cursor);
/* Gives back what the links that are there do not need, `steps` buckets at most. True: there is more to give back. Not
 * between two calls of one hash_walk(). */
bool hash_shrink(struct hash *h, size_t steps);
void hash_deinit(struct hash *h);
