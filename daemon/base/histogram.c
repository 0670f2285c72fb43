/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.c: the rarer calls of a histogram: a new power of two, a walk, two together.
 * Owns the blocks. [one thread a histogram]
 * Keeps: a bucket's count is exact where there was memory for it.
 * Does not compute quantiles: what shows them does. */
#include "base/histogram.h"

#include <stdlib.h>
#include <string.h>

/* 0: no memory. */
static uint8_t block_new(struct histogram *h)
{
    uint64_t(*blocks)[HISTOGRAM_SUB] = realloc(h->blocks, (h->n_blocks + 1u) * sizeof(*blocks));

    if (!blocks)
        return 0;
    memset(blocks[h->n_blocks], 0, sizeof(*blocks));
    h->blocks = blocks;
    return ++h->n_blocks;
}

void histogram_count(struct histogram *h, uint32_t bucket, uint64_t n)
{
    uint8_t *at = &h->at[bucket / HISTOGRAM_SUB];

    if (!*at)
        *at = block_new(h);
    if (*at)
        h->blocks[*at - 1][bucket % HISTOGRAM_SUB] += n;
}

uint32_t histogram_next(const struct histogram *h, uint32_t bucket)
{
    while (bucket < HISTOGRAM_BUCKETS && histogram_at(h, bucket) == 0)
        bucket += h->at[bucket / HISTOGRAM_SUB] ? 1 : HISTOGRAM_SUB - bucket % HISTOGRAM_SUB;
    return bucket;
}

uint64_t histogram_percentile(const struct histogram *h, uint32_t percent)
{
    uint64_t n = 0, sum = 0;

    for (uint32_t b = 0; (b = histogram_next(h, b)) < HISTOGRAM_BUCKETS; b++)
        n += histogram_at(h, b);
    const uint64_t wanted = n / 100 * percent + (n % 100 * percent + 99) / 100;
    for (uint32_t b = 0; (b = histogram_next(h, b)) < HISTOGRAM_BUCKETS; b++) {
        sum += histogram_at(h, b);
        if (sum >= wanted)
            return b + 1 < HISTOGRAM_BUCKETS && histogram_high(b) < h->max ? histogram_high(b) : h->max;
    }
    return 0;
}

void histogram_merge(struct histogram *h, const struct histogram *other)
{
    for (uint32_t b = 0; (b = histogram_next(other, b)) < HISTOGRAM_BUCKETS; b++)
        histogram_count(h, b, histogram_at(other, b));
    histogram_add_sum(h, other->sum);
    if (other->max > h->max)
        h->max = other->max;
}

void histogram_deinit(struct histogram *h)
{
    free(h->blocks);
    *h = (struct histogram){.blocks = NULL};
}
