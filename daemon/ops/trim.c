/* SPDX-License-Identifier: Apache-2.0
 *
 * trim.c: gives memory back after a burst of jobs: first that of tables, then that which the allocator keeps.
 * Owns the timer, which the end of a burst sets. An idle wsd has none. [loop]
 * Keeps: bursts in quick succession cost no page faults: nothing is given back between them. For a heap of hundreds of
 * MiB the allocator may take some ten milliseconds, in which the loop stands still. So it waits for an idle moment, but
 * not for ever.
 * Does not know the users of the memory. */
#include "ops/trim.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define LEAST      (8ull << 20) /* bytes of jobs: from here on it is a burst */
#define PATIENCE   10u          /* looks until it is done in spite of what goes on */
#define QUIET_LOOP 4u           /* turns of the loop between two looks: nothing is done */

static const struct timeval look = {.tv_sec = 2}, slice = {.tv_usec = 10000};

struct trim {
    struct jobs *jobs;
    struct event *timer;
    uint64_t high;    /* bytes of jobs, the most since the last time */
    uint32_t n_turns; /* since the last look */
    uint32_t n_looks; /* since the burst has ended */
    bool armed;
};

static void on_timer(evutil_socket_t fd, short what, void *userdata)
{
    struct trim *t = userdata;
    uint64_t now = jobs_weight(t->jobs);

    t->armed = false;
    if (now > t->high / 2) /* the next one has come */
        return;
    bool busy = t->n_turns > QUIET_LOOP && ++t->n_looks < PATIENCE;
    t->n_turns = 0;
    if (busy || jobs_shrink(t->jobs)) {
        t->armed = event_add(t->timer, busy ? &look : &slice) == 0;
        return;
    }
    uint64_t began = clock_monotonic_usec();
    (void)malloc_trim(0);
    log_debug("memory of a burst was given back in %llu us", (unsigned long long)(clock_monotonic_usec() - began));
    t->high = now;
}

void trim_look(struct trim *t)
{
    uint64_t now = t ? jobs_weight(t->jobs) : 0;

    if (!t)
        return;
    t->n_turns++;
    if (now > t->high)
        t->high = now;
    if (t->armed || t->high < LEAST || now > t->high / 2)
        return;
    t->n_looks = t->n_turns = 0;
    t->armed = event_add(t->timer, &look) == 0;
}

int trim_new(struct trim **ret, struct event_base *base, struct jobs *jobs)
{
    struct trim *t = calloc(1, sizeof(*t));

    if (!t)
        return -ENOMEM;
    t->jobs = jobs;
    t->timer = evtimer_new(base, on_timer, t);
    if (!t->timer) {
        free(t);
        return -ENOMEM;
    }
    *ret = t;
    return 0;
}

struct trim *trim_free(struct trim *t)
{
    if (!t)
        return NULL;
    event_free(t->timer);
    free(t);
    return NULL;
}
