/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.c: the orderly end.
 * Owns nothing. [loop]
 * Keeps: an end comes within its time, whatever jobs, clients and executors do. */
#include "drain.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "frontend/handover.h"
#include "frontend/listener.h"

#define FLUSH_MAX_USEC  1000000u  /* for the last answers to be read, at the end */
#define FINISH_MAX_USEC 2000000u  /* for executors to end in order */
#define END_MAX_USEC    10000000u /* for all else at the end */
#define TICK_USEC       50000u

static void tick(struct daemon *d)
{
    struct timeval t = {.tv_usec = TICK_USEC};

    evtimer_add(d->drain_timer, &t);
}

void on_drain_over(evutil_socket_t fd, short what, void *context)
{
    struct daemon *d = context;

    tick(d);
    if (d->ending)
        return;
    log_warning("ending now: what still runs is interrupted");
    d->ending = true;
    d->ending_usec = clock_monotonic_usec();
    jobs_interrupt_all(d->jobs);
}

void on_end(void *context)
{
    on_drain_over(-1, 0, context);
}

void on_drain(void *context)
{
    struct daemon *d = context;
    struct timeval t = {.tv_sec = (time_t)(d->config.drain_usec / 1000000),
                        .tv_usec = (suseconds_t)(d->config.drain_usec % 1000000)};

    d->draining = true;
    service_stopping(d->service, d->config.drain_usec + FLUSH_MAX_USEC + FINISH_MAX_USEC + END_MAX_USEC);
    jobs_drain(d->jobs);
    frontend_goodbye(d->frontend);
    evtimer_add(d->drain_timer, &t);
    log_info("draining: running and queued jobs end, new ones are refused"); /* when it is so */
}

bool finished(struct daemon *d)
{
    struct jobs_counters n;

    if (!d->draining && !d->ending)
        return false;
    jobs_counters(d->jobs, &n);
    if (n.n_open > 0 || n.direct_running > 0)
        return false;
    if (jobs_have_told(d->jobs) && frontend_quiet(d->frontend))
        return true;
    /* a client does not read its answer */
    return d->ending && clock_monotonic_usec() - d->ending_usec > FLUSH_MAX_USEC;
}

void finish_executors(struct daemon *d)
{
    struct jobs_counters n;
    uint64_t until = clock_monotonic_usec() + FINISH_MAX_USEC;

    d->ending = true;
    tick(d);
    jobs_finish_executors(d->jobs);
    for (jobs_counters(d->jobs, &n); n.n_executors && clock_monotonic_usec() < until; jobs_counters(d->jobs, &n))
        event_base_loop(d->base, EVLOOP_ONCE);
}

void leave_clients(struct daemon *d)
{
    _cleanup_(close_fdp) int state = -1;
    _cleanup_(freep) int *fds = NULL;
    size_t n = 0;
    int r = frontend_leave(d->frontend, &state, &fds, &n);

    if (r == 0)
        r = service_leave(state, fds, n, d->socket ? frontend_listener(d->frontend) : -1);
    if (r < 0) {
        log_warning("the connections do not outlive this wsd: %s", strerror(-r));
        return;
    }
    log_info("%zu connections are left for the next wsd", n);
    free(TAKE(d->socket)); /* nor is that removed */
}
