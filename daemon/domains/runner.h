/* SPDX-License-Identifier: Apache-2.0
 *
 * runner.h: a runner's end of its rings: what runner.c and runner-life.c share, and what the domains ask of it. [loop]
 */
#pragma once

#include "base/buffer.h"
#include "domains/runners.h"
#include "ring/back.h"
#include "supervisor/executor.h"
#include "table/job.h"

struct domain;
struct runners;

#define RUN_ENDED_AS 1000 /* and the state, in place of the status of an answer: runner_end.state */

#define SENT_MAX 8u /* pieces of output of one run that wsd may hold before the rest waits here */

/* A job that the runner has. */
struct run {
    struct runner *runner;
    struct list blocked;  /* runner->blocked: its output waits for room in the ring */
    struct buffer output; /* not yet in the ring */
    uint64_t received;    /* bytes of output so far, or at its end those in the arena */
    bool places;          /* its output goes into an arena */
    uint64_t started_usec;
    uint32_t slot, generation;
    uint32_t n_sent;
    struct {
        uint32_t chunk;
        uint64_t serial;
    } sent[SENT_MAX]; /* pieces that wsd held when last looked at */
    bool progress, ended;
    /* once ended */
    uint32_t status;
    uint64_t cpu_usec;
    char error[RING_TEXT], text[RING_TEXT];
};

struct runner {
    struct list link; /* runners->all */
    struct runners *of;
    struct domain *domain;
    struct back *back;
    struct executor_runner executor;
    const struct runner_ops *ops;
    void *context;
    uint64_t functions; /* those of the name that it offers, as bits */
    uint32_t credit;
    int32_t pid;
    uint64_t since_usec; /* CLOCK_REALTIME */
    struct user *user;   /* pays for output that the rings have not taken */
    bool leaving, told_left, killed;
    bool places; /* it can put output into an arena */
    struct list blocked;
    struct run *runs[RING_SLOTS];
    int inputs[RING_SLOTS]; /* descriptors that came ahead of their jobs; 0: none, else the descriptor plus 1 */
};

extern const char runner_cannot_place[]; /* why an older runner is given no such job */

void run_free(struct run *run);
/* Returns the descriptor that came ahead of its job, which is the caller's then; or -1. */
int runner_take_input(struct runner *r, uint32_t slot);
/* Hands to the runner what is in its rings, and passes on output. True: there was something. */
bool runner_turn(struct runner *r);
void runner_stop(struct runner *r, uint32_t slot, enum job_stop why); /* its job is to end */
