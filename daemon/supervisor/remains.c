/* SPDX-License-Identifier: Apache-2.0
 *
 * remains.c: waits until nothing is left of the commands of an executor that has ended.
 * Owns wsd's ends of the reapers' sockets.
 * Keeps: a reaper that sees the end of file here ends everything, so that a wsd that was killed leaves nothing either.
 * Does not read what comes: a reaper has nothing to say, so a process that writes there is none. */
#include "supervisor/remains.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/async-close.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "far-end/far-end.h"

#define LIVES_MAX 8u /* of one executor at a time: reapers that were killed; their keepers go on */
#define DEADLINE_SEC                                                                                                   \
    10 /* for processes that are killed; only one that the kernel does not end, or that was stopped, takes longer */

struct life {
    struct list link; /* remains->lives, or leaving */
    struct remains *remains;
    int fd;
    uint64_t owner;
    struct event *event; /* NULL: leaving */
};

static struct list leaving = {&leaving, &leaving};
static size_t n_lives;

static struct life *life_free(struct life *l)
{
    if (!l)
        return NULL;
    list_remove(&l->link);
    if (l->event)
        event_free(l->event);
    async_close(l->fd, l->owner);
    free(l);
    n_lives--;
    return NULL;
}

static void tell_gone(struct remains *r)
{
    if (!r->deadline)
        return; /* they ended by themselves, without remains_end() */
    event_free(r->deadline);
    r->deadline = NULL;
    r->gone(r->context);
}

static void on_life(evutil_socket_t fd, short what, void *userdata)
{
    struct life *l = userdata;
    struct remains *r = l->remains;
    char byte;
    ssize_t n = recv(l->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT); /* it says nothing: a stranger does */

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    life_free(l);
    if (--r->n == 0)
        tell_gone(r);
}

static void on_deadline(evutil_socket_t fd, short what, void *userdata)
{
    struct remains *r = userdata;

    log_warning(
        "processes of commands of an executor that has ended are still there after %d s: wsd goes on without waiting "
        "for them",
        DEADLINE_SEC);
    for (struct list *l; (l = list_pop_front(&r->lives));)
        life_free(container_of(l, struct life, link));
    r->n = 0;
    tell_gone(r);
}

void remains_init(struct remains *r, struct event_base *base, struct far_ends *far_ends, uint64_t owner,
                  void (*gone)(void *context), void *context)
{
    *r = (struct remains){.base = base, .far_ends = far_ends, .owner = owner, .gone = gone, .context = context};
    list_init(&r->lives);
}

bool remains_take(struct remains *r, int fd)
{
    struct life *l = fd >= 0 && r->n < LIVES_MAX ? calloc(1, sizeof(*l)) : NULL;
    int type = 0;
    socklen_t size = sizeof(type);

    if (!l) {
        async_close(fd, r->owner);
        return false;
    }
    n_lives++;
    list_init(&l->link);
    l->remains = r;
    l->owner = r->owner;
    l->fd = fd;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM)
        l->event = event_new(r->base, fd, EV_READ | EV_PERSIST, on_life, l);
    if (!l->event || event_add(l->event, NULL) < 0) {
        life_free(l);
        return false;
    }
    list_push_back(&r->lives, &l->link);
    r->n++;
    return true;
}

bool remains_end(struct remains *r)
{
    static const struct timeval limit = {.tv_sec = DEADLINE_SEC};

    if (r->n == 0)
        return true;
    list_for_each_entry (struct life, life, &r->lives, link)
        far_end_shut(r->far_ends, r->owner, life->fd);
    if (!r->deadline)
        r->deadline = evtimer_new(r->base, on_deadline, r);
    return !r->deadline || event_add(r->deadline, &limit) < 0;
}

void remains_deinit(struct remains *r)
{
    if (r->deadline)
        event_free(r->deadline);
    r->deadline = NULL;
    for (struct list *link; (link = list_pop_front(&r->lives));) {
        struct life *l = container_of(link, struct life, link);

        event_free(l->event);
        l->event = NULL;
        far_end_shut(r->far_ends, r->owner, l->fd);
        list_push_back(&leaving, &l->link);
    }
    r->n = 0;
}

void remains_wait(void)
{
    uint64_t end = clock_monotonic_usec() + DEADLINE_SEC * UINT64_C(1000000);

    while (!list_empty(&leaving)) {
        struct life *l = container_of(leaving.next, struct life, link);
        struct pollfd p = {.fd = l->fd, .events = POLLIN};
        uint64_t now = clock_monotonic_usec();

        if (now < end && poll(&p, 1, (int)((end - now) / 1000)) < 0 && errno == EINTR)
            continue;
        life_free(l);
    }
}

bool remains_any(void)
{
    return n_lives > 0;
}
