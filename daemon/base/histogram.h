/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.h: how often which values came, in buckets that grow with the value. Values below 64 have a bucket each.
 * From there on each power of two has 32 buckets, so the middle of a bucket is within 1/64 (1.6 %) of each value in it.
 * Counts are exact. Memory is taken for the powers of two that occur, 256 bytes each. [one thread a histogram]
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_SUB     32u /* buckets of a power of two */
#define HISTOGRAM_BITS    5u  /* HISTOGRAM_SUB as a power of two */
#define HISTOGRAM_BLOCKS  36u /* of HISTOGRAM_SUB buckets each */
#define HISTOGRAM_BUCKETS (HISTOGRAM_BLOCKS * HISTOGRAM_SUB)
#define HISTOGRAM_MAX     (UINT64_C(1) << 40) /* this value and larger ones are in the last bucket */

/* Zero-initialised it is empty. */
struct histogram {
    uint64_t (*blocks)[HISTOGRAM_SUB];
    uint64_t sum; /* of all values; stays at UINT64_MAX once it would be more */
    uint64_t max; /* the largest value */
    uint8_t n_blocks;
    uint8_t at[HISTOGRAM_BLOCKS]; /* number of the block in `blocks`, plus 1; 0: none of its values has come */
};

/* The bucket of a value. */
static inline uint32_t histogram_bucket(uint64_t value)
{
    if (value >= HISTOGRAM_MAX)
        return HISTOGRAM_BUCKETS - 1;
    uint32_t shift = (63u - HISTOGRAM_BITS) - (uint32_t)__builtin_clzll(value | HISTOGRAM_SUB);
    return shift * HISTOGRAM_SUB + (uint32_t)(value >> shift);
}

/* The least value and the largest one of a bucket. Those above are in the last bucket, too. */
static inline uint64_t histogram_low(uint32_t bucket)
{
    uint32_t shift = bucket < 2 * HISTOGRAM_SUB ? 0 : bucket / HISTOGRAM_SUB - 1;

    return (uint64_t)(bucket - shift * HISTOGRAM_SUB) << shift;
}

static inline uint64_t histogram_high(uint32_t bucket)
{
    return bucket + 1 < HISTOGRAM_BUCKETS ? histogram_low(bucket + 1) - 1 : HISTOGRAM_MAX - 1;
}

/* Counts n values in a bucket, without `sum` and `max`. Where there is no memory they are not counted. */
void histogram_count(struct histogram *h, uint32_t bucket, uint64_t n);

static inline void histogram_add_sum(struct histogram *h, uint64_t sum)
{
    if (__builtin_add_overflow(h->sum, sum, &h->sum))
        h->sum = UINT64_MAX;
}

/* Counts one value. */
static inline void histogram_add(struct histogram *h, uint64_t value)
{
    uint32_t bucket = histogram_bucket(value);
    uint8_t at = h->at[bucket / HISTOGRAM_SUB];

    histogram_add_sum(h, value);
    if (value > h->max)
        h->max = value;
    if (at)
        h->blocks[at - 1][bucket % HISTOGRAM_SUB]++;
    else
        histogram_count(h, bucket, 1);
}

/* How many values are in a bucket. */
static inline uint64_t histogram_at(const struct histogram *h, uint32_t bucket)
{
    uint8_t at = h->at[bucket / HISTOGRAM_SUB];

    return at ? h->blocks[at - 1][bucket % HISTOGRAM_SUB] : 0;
}

/* The first bucket from this one on that has values; HISTOGRAM_BUCKETS: none has. */
uint32_t histogram_next(const struct histogram *h, uint32_t bucket);
/* The least value that no fewer than so many of a hundred are at or below, to within 1/32; 0 where there is none at
 * all. */
uint64_t histogram_percentile(const struct histogram *h, uint32_t percent);
/* Adds what another one has. */
void histogram_merge(struct histogram *h, const struct histogram *other);
void histogram_deinit(struct histogram *h); /* it is empty then */
