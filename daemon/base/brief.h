/* SPDX-License-Identifier: Apache-2.0
 *
 * brief.h: how long the calls of a function took of late, and how many of them may therefore go together: wsd's bundles
 * (jobs/bundle.c) and the slots of a direct lane (client/calls.c). Zeros: nothing is known. [one thread]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BRIEF_USEC 100u /* those that go together may be expected to take so long, all in all */

struct brief {
    /* of how many calls that is known: the last ones, at most; 0: whoever saw that it is wrong has forgotten it */
    uint32_t shown;
    uint32_t mean; /* what one took, in 1/64 ns */
};

/* n more, at least one, which all together took usec. It is the mean that counts, with what is long in it up to 10 ms:
 * one of a thousand that is interrupted for a moment, or waits for a disk now and then, adds its part, and is no
 * rule. */
void brief_learn(struct brief *b, uint32_t n, uint64_t usec);
bool brief_is_known(const struct brief *b);
/* At least 1, at most max. */
uint32_t brief_together(const struct brief *b, uint32_t max);
/* What n more are expected to take, with the way from one to the next. */
uint64_t brief_nsec(const struct brief *b, uint32_t n);
/* The largest of late: what it was is forgotten by 1/64 a call; both in 1/64. */
uint32_t brief_largest(uint32_t was, uint32_t now, uint32_t n);
