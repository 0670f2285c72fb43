/* SPDX-License-Identifier: Apache-2.0
 *
 * run-slots.h: limits the jobs of all domains that are handed over at once (max-running). [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct domain;
struct jobs;
struct user;

/* Whether the domain may hand over the first job of its queue, which is ready. False: the domain waits for its turn. */
bool run_slots_let(struct domain *d);
void run_slots_taken(struct domain *d, struct user *user); /* a job of this user was handed over */
/* Chooses the waiting domain that has its turn, and takes it off the list. A job accepted before before_usec counts as
 * aged. NULL: no domain waits. */
struct domain *run_slots_next(struct jobs *jobs, uint64_t before_usec);
