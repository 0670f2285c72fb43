/* SPDX-License-Identifier: Apache-2.0
 *
 * brief.h: how long a function's recent calls took, and so how many calls may go together. For wsd's bundles
 * (jobs/bundle.c) and the slots of a direct lane (client/calls.c). All zeros: nothing is known. [one thread]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BRIEF_USEC 100u /* expected time, at most, of all calls that go together */

struct brief {
    /* Sample count of recent calls, capped; 0 after a reset. */
    uint32_t shown;
    uint32_t mean; /* what one took, in 1/64 ns */
};

/* Adds n calls (at least one), which took usec together. The mean counts, with long calls capped at 10 ms. One call of
 * a thousand may be interrupted for a moment, or wait for a disk. It adds its part, and does not decide. */
void brief_learn(struct brief *b, uint32_t n, uint64_t usec);
bool brief_is_known(const struct brief *b);
/* At least 1, at most max. */
uint32_t brief_together(const struct brief *b, uint32_t max);
/* How long n more calls are expected to take, with the overhead between them. */
uint64_t brief_nsec(const struct brief *b, uint32_t n);
/* A decaying maximum of recent values: the old one shrinks by 1/64 a call. Both are in 1/64. */
uint32_t brief_largest(uint32_t was, uint32_t now, uint32_t n);
