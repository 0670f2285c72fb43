/* SPDX-License-Identifier: Apache-2.0
 *
 * brief.h: how long the calls of a function took of late, and how many of them may therefore go together: wsd's bundles
 * (jobs/bundle.c) and the slots of a direct lane (client/calls.c). Zeros: nothing is known. [one thread]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define BRIEF_USEC 100u /* a call that takes as long is not brief; nor may those that go together, all in all */

struct brief {
    uint32_t shown; /* calls in a row that were */
    uint32_t run;   /* what they took at most, in 1/64 us */
    uint32_t nsec;  /* on the average */
};

/* n more, of which the longest took longest_usec, and all of them usec. */
void brief_learn(struct brief *b, uint32_t n, uint64_t usec, uint64_t longest_usec);
bool brief_is_known(const struct brief *b);
/* At least 1, at most max. */
uint32_t brief_together(const struct brief *b, uint32_t max);
/* What n more are expected to take, with the way from one to the next. */
uint64_t brief_nsec(const struct brief *b, uint32_t n);
/* The largest of late: what it was is forgotten by 1/64 a call; both in 1/64. */
uint32_t brief_largest(uint32_t was, uint32_t now, uint32_t n);
