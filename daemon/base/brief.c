/* SPDX-License-Identifier: Apache-2.0
 *
 * brief.c: how long calls took of late.
 * Owns nothing. Believes what it is told: nothing but speed hangs on it. */
#include "base/brief.h"

#include "base/cleanup.h"

#define STEP         4u   /* one more goes together for so many that were brief */
#define SHOWN_MAX    512u
#define DECAY        6u   /* 1/64 */
#define MEAN         3u   /* what the last ones took is worth 1/8 */
#define BETWEEN_NSEC 50u  /* of which a worker needs so many to go from one to the next */

uint32_t brief_largest(uint32_t was, uint32_t now, uint32_t n)
{
    return MAX(now, was - (was >> DECAY) * MIN(n, 1u << (DECAY - 1)));
}

void brief_learn(struct brief *b, uint32_t n, uint64_t usec, uint64_t longest_usec)
{
    uint32_t mean = (uint32_t)(MIN(usec, (uint64_t)n * BRIEF_USEC) * 1000 / n);

    b->nsec = n >= 1u << MEAN ? mean : b->nsec - (b->nsec >> MEAN) + (mean >> MEAN);
    b->run = brief_largest(b->run, (uint32_t)MIN(longest_usec, (uint64_t)BRIEF_USEC) << DECAY, n);
    b->shown = longest_usec < BRIEF_USEC ? MIN(b->shown + n, SHOWN_MAX) : 0;
}

bool brief_is_known(const struct brief *b)
{
    return b->shown >= 2 * STEP;
}

uint32_t brief_together(const struct brief *b, uint32_t max)
{
    uint32_t run = 2 * BRIEF_USEC / (2 * (b->run >> DECAY) + 1);

    return MAX(MIN(MIN(run, b->shown / STEP), max), 1u);
}

uint64_t brief_nsec(const struct brief *b, uint32_t n)
{
    return (uint64_t)n * (b->nsec + BETWEEN_NSEC);
}
