/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.h: direct lanes (ring/lane.h) from wsd's side: who gets one, what may be called through it, how long, and
 * what becomes of its calls when the executor dies. [loop]
 */
#pragma once

#include "jobs/job.h"

struct lanes_death {
    const struct fault_note *note; /* NULL: none */
    const char *crash;             /* words for that */
    const char *how;               /* words for those who were there */
};
int lanes_init(struct domain *d);
void lanes_control(struct domain *d, const struct control *c);  /* LANED */
void lanes_belled(struct domain *d);                            /* something may have begun */
void lanes_watch(struct domain *d);                             /* looks at them for a while */
bool lanes_running(const struct domain *d);                     /* a direct call runs */
bool lanes_wait(const struct domain *d);                        /* or did just now, or one is waited for */
void lanes_revoke(struct domain *d);                            /* nothing more is begun in them */
void lanes_review(struct jobs *jobs);                           /* limits, or what is allowed, have changed */
void lanes_stale(const struct plugin *p);                       /* new calls do not go to this one */
void lanes_swap(struct domain *d, struct domain *n);            /* d's executor is n's now; n had none */
void lanes_count(struct jobs *jobs, struct jobs_counters *ret); /* adds those that are open */
/* The executor is dead, or being freed: each call has its verdict, no lane is left. True: it was killed for one of
 * them. */
bool lanes_gone(struct domain *d, const struct lanes_death *death);
