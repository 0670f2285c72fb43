/* SPDX-License-Identifier: Apache-2.0
 *
 * direct-lane.h: direct lanes (ring/lane-ring.h) on wsd's side. Decides which users get one, which calls are allowed
 * and for how long, and what becomes of calls when the executor dies. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct control;
struct domain;
struct fault_note;
struct jobs;
struct jobs_counters;
struct plugin;

struct event;

/* Direct lanes into the executor of a domain. */
struct lanes {
    struct list all;
    struct event *timer; /* armed while a direct call runs */
    bool armed;
    uint64_t waited_usec; /* when a client last reported that it waits */
};

struct lanes_death {
    const struct fault_note *note; /* NULL: none */
    const char *crash;             /* words for the note */
    const char *how;               /* words for the calls that were running */
};
int lanes_init(struct domain *d); /* 0 or -ENOMEM */
void lanes_deinit(struct domain *d);
void lanes_control(struct domain *d, const struct control *c); /* LANED */
void lanes_belled(struct domain *d);                           /* the bell rang: a call may have begun */
void lanes_watch(struct domain *d);                            /* looks at the lanes for a while */
bool lanes_running(const struct domain *d);                    /* a direct call runs */
/* a direct call runs, or ran just now, or a client waits for one */
bool lanes_wait(const struct domain *d);
void lanes_revoke(struct domain *d);                            /* no new call may begin */
void lanes_review(struct jobs *jobs);                           /* limits or permissions have changed */
void lanes_stale(const struct plugin *p);                       /* new calls do not use this plugin */
void lanes_swap(struct domain *d, struct domain *n);            /* n took over d's executor; n had none */
void lanes_count(struct jobs *jobs, struct jobs_counters *ret); /* adds the open lanes to the counters */
/* The executor is dead or being freed: gives each call its verdict and closes every lane. True: the executor was killed
 * because of one of the calls. */
bool lanes_gone(struct domain *d, const struct lanes_death *death);
