/* SPDX-License-Identifier: Apache-2.0
 *
 * refusals.c: bounds how fast a connection is refused requests.
 * Owns the pauses of connections that had too many. [loop]
 * Keeps: refusals take a bounded share of the loop, and of the CPU on both sides. Other clients do not notice them.
 * Does not know why a request is refused. */
#include "frontend/refusals.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "frontend/peer.h"

/* After more than REFUSALS_AHEAD of them, a connection is not read from until its refusals are within one each
 * REFUSAL_USEC. */
#define REFUSAL_USEC   32u
#define REFUSALS_AHEAD 64u
#define PAUSE_USEC     1000u   /* the paused ones are looked at so often */
#define PAUSE_MAX_USEC 100000u /* what its client asks besides should not wait for long; an array has thousands */

static void pauses_wait(struct frontend *f);

static bool is_ahead(const struct peer *p, uint64_t now_usec)
{
    return p->refused_usec > now_usec + REFUSALS_AHEAD * REFUSAL_USEC;
}

static void on_pause_over(evutil_socket_t fd, short what, void *userdata)
{
    struct frontend *f = userdata;
    uint64_t now = clock_monotonic_usec();

    for (struct list *l = f->refusals.paused.next, *next; l != &f->refusals.paused; l = next) {
        struct peer *p = container_of(l, struct peer, paused);

        next = l->next;
        if (is_ahead(p, now))
            continue;
        list_remove(l);
        share_mark(p);
    }
    pauses_wait(f);
}

static void pauses_wait(struct frontend *f)
{
    const struct timeval t = {.tv_usec = PAUSE_USEC};

    if (list_empty(&f->refusals.paused) || evtimer_pending(f->refusals.timer, NULL) ||
        evtimer_add(f->refusals.timer, &t) == 0)
        return;
    for (struct list *l; (l = list_pop_front(&f->refusals.paused));) /* no memory for a pause */
        share_mark(container_of(l, struct peer, paused));
}

void refusals_count(struct peer *p)
{
    uint64_t now;

    if (!p->n_refused && !p->refused_usec)
        return;
    now = clock_monotonic_usec();
    if (p->n_refused)
        p->refused_usec = MIN(MAX(p->refused_usec, now) + p->n_refused * REFUSAL_USEC, now + PAUSE_MAX_USEC);
    else if (p->refused_usec <= now)
        p->refused_usec = 0;
    p->n_refused = 0;
    if (!is_ahead(p, now) || p->failed || !list_empty(&p->paused))
        return;
    list_push_back(&p->frontend->refusals.paused, &p->paused);
    pauses_wait(p->frontend);
}

int refusals_init(struct frontend *f)
{
    list_init(&f->refusals.paused);
    f->refusals.timer = evtimer_new(f->options.base, on_pause_over, f);
    return f->refusals.timer ? 0 : -ENOMEM;
}

void refusals_deinit(struct frontend *f)
{
    if (f->refusals.timer)
        event_free(f->refusals.timer);
}
