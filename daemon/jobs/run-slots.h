/* SPDX-License-Identifier: Apache-2.0
 *
 * run-slots.h: how many jobs of all domains are handed over at once (max-running), and whose turn it is when one
 * has ended. [loop]
 */
#pragma once

#include "jobs/job.h"

/* Whether the first of its queue, which could go on, may be handed over; false: the domain waits for its turn. */
bool run_slots_let(struct domain *d);
void run_slots_taken(struct domain *d, struct user *user); /* a job of his was handed over */
void run_slots_left(struct jobs *jobs);                    /* one is no longer */
/* Whose turn it is, of those that wait; it does no longer. before_usec: who was accepted then has waited for long.
 * NULL: nobody's. */
struct domain *run_slots_next(struct jobs *jobs, uint64_t before_usec);
void run_slots_turn(struct jobs *jobs); /* once a turn of the loop */
