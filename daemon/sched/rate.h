/* SPDX-License-Identifier: Apache-2.0
 *
 * rate.h: a limit of events a second (the generic cell rate algorithm).
 */
#pragma once

#include <stdint.h>

/* A limit of events a second. Its only state is *at. That is the time (CLOCK_MONOTONIC, ns) at which the last event
 * would have been due, had all come evenly. Call rate_wait() for how long until one more may come, in us; 0: now. Call
 * rate_take() to count it. A `rate` of 0 is any number. A `burst` of 0 is as many as in a second. */
uint64_t rate_wait(uint64_t at, uint64_t rate, uint64_t burst, uint64_t now_nsec);
void rate_take(uint64_t *at, uint64_t rate, uint64_t now_nsec);
