/* SPDX-License-Identifier: Apache-2.0
 *
 * query.h: questions to executors: counters, number of workers, traces, stacks. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct control;
struct domain;
struct jobs;

#define TRACE_ENDED 16u /* numbers that are kept of executors that ended while they were traced */

/* Questions to one executor. */
struct queries {
    struct list parts; /* unanswered parts of questions, the oldest first */
    uint32_t n;
};

/* A trace of a domain's executors. */
struct domain_trace {
    uint32_t number, by;         /* 0: none; uid of the user that started it */
    uint32_t rate;               /* of a profile; 0: events */
    uint32_t n_ended;            /* executors that ended while traced */
    uint32_t ended[TRACE_ENDED]; /* numbers of the first of those */
    uint32_t n_reports;          /* reports that were not read yet */
};

/* A trace of all domains, future ones too. */
struct jobs_trace {
    uint32_t number, by, rate; /* as above */
    uint32_t next;             /* number of the next trace, of whichever kind */
};

int query_init(struct domain *d);     /* 0 */
void query_started(struct domain *d); /* an executor is there: traces it if the last one was traced */
/* ASKED. False: it was asked nothing like this, and is distrusted. */
bool query_answered(struct domain *d, const struct control *c);
void query_executor_gone(struct domain *d);
void query_swap(struct domain *a, struct domain *b); /* the two domains exchanged their executors */
int query_health(struct domain *d);                  /* asks whether the executor answers; health_heard() follows */
uint64_t query_traces(const struct jobs *jobs);      /* traces under way */
