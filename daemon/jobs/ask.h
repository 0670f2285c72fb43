/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.h: questions to executors: counters, number of workers, traces. [loop]
 */
#pragma once

#include "jobs/job.h"

void ask_init(struct domain *d);
void ask_started(struct domain *d); /* an executor is there: traces it if the last one was traced */
void ask_answered(struct domain *d, const struct control *c); /* ASKED */
void ask_executor_gone(struct domain *d);
void ask_swap(struct domain *a, struct domain *b); /* the two domains exchanged their executors */
int ask_health(struct domain *d);                  /* asks whether the executor answers; health_heard() follows */
uint64_t ask_traces(const struct jobs *jobs);      /* traces under way */
