/* SPDX-License-Identifier: Apache-2.0
 *
 * run-slots.h: limits the jobs of all domains that are handed over at once (max-running), and chooses the domain that
 * gets the next free run slot. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct domain;
struct jobs;
struct user;

struct run_slots {
    struct list waiting; /* domains that wait for a run slot */
    uint64_t n_running;  /* jobs handed over */
    uint64_t n_taken;    /* hand-overs so far while there was a limit */
    uint32_t turns;      /* modulo AGEING_TURNS */
    bool due;            /* a waiting domain may get a run slot */
};

/* What a domain has of them. */
struct run_slot {
    struct list waiting; /* run_slots.waiting */
    uint64_t placed;     /* run_slots.n_taken at its last hand-over */
    bool has_turn;       /* it may hand over one job before the others that wait */
};

/* Whether the domain may hand over the first job of its queue, which is ready. False: the domain waits for its turn. */
bool run_slots_let(struct domain *d);
void run_slots_taken(struct domain *d, struct user *user); /* a job of this user was handed over */
void run_slots_left(struct jobs *jobs);                    /* a job is not handed over now */
/* Chooses the waiting domain that has its turn, and takes it off the list. A job accepted before before_usec counts as
 * aged. NULL: no domain waits. */
struct domain *run_slots_next(struct jobs *jobs, uint64_t before_usec);
void run_slots_turn(struct jobs *jobs); /* once a turn of the loop */
