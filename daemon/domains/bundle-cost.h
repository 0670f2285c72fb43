/* SPDX-License-Identifier: Apache-2.0
 *
 * bundle-cost.h: how long the jobs of a bundle are expected to take, and so when their executor is woken. [loop]
 */
#pragma once

#include "table/job.h"

/* n jobs of the function have ended. usec: the time of all together; output: the largest output. */
void bundle_ran(struct plugin_function *f, uint32_t n, uint64_t usec, uint64_t output);
/* The expected duration. */
uint64_t bundle_nsec(const struct job *job);
/* The same; UINT32_MAX: unknown. */
uint32_t bundle_usec(const struct job *job);
/* Whether no other worker need be woken: the executor has only bundles, which together take less time than a wake-up,
 * and one worker is awake to take them. */
bool bundles_brief(struct domain *d);
/* Rings the executor's doorbell. Once a turn of the loop, since a wake-up costs more than many jobs. True: a worker was
 * woken. */
bool domain_ring(struct domain *d);
