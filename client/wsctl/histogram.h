/* SPDX-License-Identifier: Apache-2.0
 *
 * histogram.h: how often which time was measured, in a fixed room: exact below 64, then to within 1/32.
 */
#pragma once

#include <stdint.h>

#define HISTOGRAM_EXACT   64u
#define HISTOGRAM_STEPS   32u /* from one power of two to the next */
#define HISTOGRAM_BUCKETS 1920u

struct histogram {
    uint64_t n, max, buckets[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t value)
{
    uint32_t shift = value < HISTOGRAM_EXACT ? 0 : 63u - (uint32_t)__builtin_clzll(value) - 5u;

    return shift * HISTOGRAM_STEPS + (uint32_t)(value >> shift);
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
    h->buckets[histogram_bucket(value)]++;
    h->n++;
    h->max = value > h->max ? value : h->max;
}

/* The least value that no fewer than so many of a hundred are below or at; 0 where there is none at all. */
static inline uint64_t histogram_percentile(const struct histogram *h, uint32_t percent)
{
    uint64_t wanted = h->n / 100 * percent + (h->n % 100 * percent + 99) / 100, sum = 0;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS && wanted > 0; i++) {
        sum += h->buckets[i];
        if (sum >= wanted) {
            uint32_t shift = i < HISTOGRAM_EXACT ? 0 : i / HISTOGRAM_STEPS - 1;
            uint64_t last = ((i - shift * HISTOGRAM_STEPS + UINT64_C(1)) << shift) - 1;

            return last < h->max ? last : h->max;
        }
    }
    return 0;
}
