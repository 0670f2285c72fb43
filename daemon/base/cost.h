/* SPDX-License-Identifier: Apache-2.0
 *
 * cost.h: how long a function's recent calls took, and so how many calls may go together. For wsd's bundles
 * (domains/bundle.c) and the slots of a direct lane (client/calls.c). All zeros: nothing is known. [one thread]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define COST_USEC 100u /* expected time, at most, of all calls that go together */

struct cost {
    /* Sample count of recent calls, capped; 0 after a reset. */
    uint32_t shown;
    uint32_t mean; /* what one took, in 1/64 ns */
};

/* Adds n calls (at least one), which took usec together. The mean counts, with long calls capped at 10 ms. One call of
 * a thousand may be interrupted for a moment, or wait for a disk. It adds its part, and does not decide. */
void cost_learn(struct cost *b, uint32_t n, uint64_t usec);
bool cost_is_known(const struct cost *b);
/* At least 1, at most max. */
uint32_t cost_together(const struct cost *b, uint32_t max);
/* How long n more calls are expected to take, with the overhead between them. */
uint64_t cost_nsec(const struct cost *b, uint32_t n);
/* A decaying maximum of recent values: the old one shrinks by 1/64 a call. Both are in 1/64. */
uint32_t cost_largest(uint32_t was, uint32_t now, uint32_t n);
