/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h: an intrusive hash table: chained, grows by a bucket at a time, never shrinks. The user compares; the table knows only
 * 64-bit keys, which should be well mixed (hash_mix).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Of n bytes behind what `seed` is the hash of. */
static inline uint64_t hash_text(uint64_t seed, const char *text, size_t n)
{
    uint64_t h = hash_mix(seed ^ 0x100 ^ n);

    for (size_t i = 0; i < n; i += sizeof(uint64_t)) { /* the last word has zeros behind the text, whose length is in `h` */
        uint64_t word = 0;

        memcpy(&word, text + i, n - i < sizeof(word) ? n - i : sizeof(word));
        h = hash_mix(h ^ word);
    }
    return h;
}

/* Puts a link in; equal keys may stand beside each other. 0 or -ENOMEM (only while it grows from nothing; a table that
 * cannot grow further just gets slower). */
int hash_insert(struct hash *h, struct hash_link *link, uint64_t key);
void hash_remove(struct hash *h, struct hash_link *link);
/* The first link with the key, and the next one. */
struct hash_link *hash_first(const struct hash *h, uint64_t key);
struct hash_link *hash_next(const struct hash_link *link);
/* Walks a table that may change between two calls, one bucket a call: *cursor begins with 0, and is 0 again behind the last one.
 * Returns the first link of the bucket, NULL where it is empty; ->next leads through it. What is in the table all the time is met
 * once, what comes or goes meanwhile once or not at all. */
struct hash_link *hash_walk(const struct hash *h, size_t *cursor);
void hash_deinit(struct hash *h);
