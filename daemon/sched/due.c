/* SPDX-License-Identifier: Apache-2.0
 *
 * due.c: two clocks, each with a heap of what waits for it and one timerfd.
 * Owns the timers; not what waits. [loop]
 * Keeps: what is due is called once, soon after its time and never before it. The timer is set for the first that is
 * due, or earlier. It is not set again while nothing waits, so an idle wsd makes no system call. Objects that wait for
 * a clock are told when it is set.
 * Does not know what is due. */
#include "sched/due.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* Sets the timer for the first, unless it is set for that or for an earlier time. */
static void arm_timer(struct due_clock *c)
{
    uint64_t at = heap_empty(&c->heap) ? 0 : MAX(c->heap.top->key, (uint64_t)1); /* 0 would disarm it */
    struct itimerspec t = {.it_value = {.tv_sec = (time_t)(at / 1000000), .tv_nsec = (long)(at % 1000000) * 1000}};
    int flags = TFD_TIMER_ABSTIME | (c->id == CLOCK_REALTIME ? TFD_TIMER_CANCEL_ON_SET : 0);

    if (at == 0 || (c->armed_usec && c->armed_usec <= at))
        return;
    if (timerfd_settime(c->fd, flags, &t, NULL) == 0)
        c->armed_usec = at;
}

static void on_time(evutil_socket_t fd, short what, void *userdata)
{
    struct due_clock *c = userdata;
    uint64_t n, now;

    if (read(c->fd, &n, sizeof(n)) < 0) {
        if (errno == ECANCELED && c->was_set)
            c->was_set(c->context);
        else if (errno != ECANCELED)
            return; /* EAGAIN: it was set anew */
    }
    c->armed_usec = 0;
    now = clock_usec(c->id);
    for (uint32_t i = 0; i < DUE_A_TURN && !heap_empty(&c->heap) && c->heap.top->key <= now; i++) {
        struct due *d = container_of(c->heap.top, struct due, node);

        due_cancel(d);
        d->call(d);
    }
    arm_timer(c);
}

int due_init(struct due_clock *c, struct event_base *base, int id, void (*was_set)(void *context), void *context)
{
    *c = (struct due_clock){.id = id, .was_set = was_set, .context = context};
    c->fd = timerfd_create(id, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->fd < 0)
        return -errno;
    c->event = event_new(base, c->fd, EV_READ | EV_PERSIST, on_time, c);
    return c->event && event_add(c->event, NULL) == 0 ? 0 : -ENOMEM;
}

void due_deinit(struct due_clock *c)
{
    if (c->event)
        event_free(c->event);
    close_fd(c->fd);
    *c = (struct due_clock){.fd = -1};
}

void due_set(struct due *d, struct due_clock *c, uint64_t at_usec)
{
    due_cancel(d);
    d->clock = c;
    heap_put(&c->heap, &d->node, at_usec);
    arm_timer(c);
}

/* The timer stays as it is. So frequent changes cost no system calls, at the price of one expiry for nothing. */
void due_cancel(struct due *d)
{
    if (!d->clock)
        return;
    heap_take(&d->clock->heap, &d->node);
    d->clock = NULL;
}

uint64_t due_left(const struct due *d)
{
    uint64_t now = d->clock ? clock_usec(d->clock->id) : 0;

    return d->clock && d->node.key > now ? d->node.key - now : 0;
}
