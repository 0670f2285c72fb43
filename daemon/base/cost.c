/* SPDX-License-Identifier: Apache-2.0
 *
 * cost.c: how long calls took of late.
 * Owns nothing. Believes what it is told: nothing but speed hangs on it. */
#include "base/cost.h"

#include "base/cleanup.h"

#define STEP         4u /* one more goes together for so many that were brief */
#define SHOWN_MAX    512u
#define LONG_USEC    10000u /* what is longer counts as so much */
#define DECAY        6u     /* 1/64 */
#define BETWEEN_NSEC 50u    /* of which a worker needs so many to go from one to the next */

uint32_t cost_largest(uint32_t was, uint32_t now, uint32_t n)
{
    return MAX(now, was - (was >> DECAY) * MIN(n, 1u << (DECAY - 1)));
}

void cost_learn(struct cost *b, uint32_t n, uint64_t usec)
{
    uint64_t most = b->shown ? LONG_USEC : COST_USEC; /* the first pay for what all of them need */
    int64_t mean = (int64_t)(MIN(usec, n * most) * 1000 * 64 / n);
    uint32_t weight = MIN(n, SHOWN_MAX);

    b->shown = MIN(b->shown + weight, SHOWN_MAX);
    b->mean = (uint32_t)(b->mean + (mean - b->mean) * weight / b->shown);
}

bool cost_is_known(const struct cost *b)
{
    return b->shown >= 2 * STEP;
}

uint32_t cost_together(const struct cost *b, uint32_t max)
{
    uint32_t run = (uint32_t)(COST_USEC * 1000 / cost_nsec(b, 1));

    return MAX(MIN(MIN(run, b->shown / STEP), max), 1u);
}

uint64_t cost_nsec(const struct cost *b, uint32_t n)
{
    return (uint64_t)n * (b->mean / 64 + BETWEEN_NSEC);
}
