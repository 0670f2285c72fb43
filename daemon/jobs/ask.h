/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.h: questions to executors: counters, number of workers, traces. [loop]
 */
#pragma once

#include "jobs/job.h"

void ask_init(struct domain *d);
void ask_started(struct domain *d); /* the executor is there: it is traced where the last one was */
void ask_answered(struct domain *d, const struct control *c); /* ASKED */
void ask_executor_gone(struct domain *d);
void ask_swap(struct domain *a, struct domain *b); /* their executors changed places */
int ask_health(struct domain *d);                  /* whether it is there; health_heard() follows */
uint64_t ask_traces(const struct jobs *jobs);      /* under way */
