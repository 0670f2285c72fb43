/* SPDX-License-Identifier: Apache-2.0
 *
 * reread.c: reads the configuration off the loop: the user database, or a file system, may not answer.
 * Owns the reading that goes on. [loop]
 * Keeps: there is one reading at a time, and what it has read is taken or dropped once.
 * Does not know what is read. */
#include "ops/reread.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/aside.h"
#include "base/cleanup.h"

struct reading {
    const struct reread_ops *ops;
    void *context;
    void *what; /* [thread, until it is done] */
};

struct reread {
    struct event_base *base;
    const struct reread_ops *ops;
    void *context;
    struct aside *aside;     /* NULL: nothing is being read */
    struct reading *reading; /* of it */
    struct event *done;
    struct event *deadline;
    uint64_t answer_usec;
    bool late;  /* the present reading will not be taken */
    bool again; /* asked for since it began */
};

static void read_aside(void *userdata)
{
    struct reading *q = userdata;

    q->what = q->ops->read(q->context);
}

static void release_reading(void *userdata)
{
    struct reading *q = userdata;

    if (q->what)
        q->ops->drop(q->what);
    free(q);
}

static void forget_reading(struct reread *r)
{
    evtimer_del(r->deadline);
    if (r->done)
        event_free(r->done);
    r->done = NULL;
    r->reading = NULL;
    r->aside = aside_forget(r->aside);
}

static int start_reading(struct reread *r);

static void begin_reading(struct reread *r)
{
    r->again = r->late = false;
    if (start_reading(r) < 0) {
        forget_reading(r);
        r->ops->take(NULL, r->context);
    }
}

static void on_done(evutil_socket_t fd, short what, void *userdata)
{
    struct reread *r = userdata;

    if (!aside_done(r->aside))
        return; /* cannot be */
    void *read = r->late ? NULL : TAKE(r->reading->what);
    bool late = r->late, again = r->again;

    forget_reading(r);
    if (!late && !again)
        r->ops->take(read, r->context);
    else if (read)
        r->ops->drop(read);
    if (again)
        begin_reading(r);
}

static void on_deadline(evutil_socket_t fd, short what, void *userdata)
{
    struct reread *r = userdata;

    if (!r->late || r->again)
        r->ops->late(r->context);
    r->late = true;
    r->again = false;
}

static void set_deadline(struct reread *r)
{
    const struct timeval t = {.tv_sec = (time_t)(r->answer_usec / 1000000),
                              .tv_usec = (suseconds_t)(r->answer_usec % 1000000)};

    if (evtimer_add(r->deadline, &t) < 0)
        on_deadline(-1, EV_TIMEOUT, r); /* no memory: not without a limit */
}

static int start_reading(struct reread *r)
{
    struct reading *q = calloc(1, sizeof(*q));

    if (!q)
        return -ENOMEM;
    q->ops = r->ops;
    q->context = r->context;
    int result = aside_start(&r->aside, read_aside, release_reading, q);
    if (result < 0) {
        free(q);
        return result;
    }
    r->reading = q;
    r->done = event_new(r->base, aside_fd(r->aside), EV_READ, on_done, r);
    if (!r->done || event_add(r->done, NULL) < 0)
        return -ENOMEM;
    set_deadline(r);
    return 0;
}

int reread_new(struct reread **ret, struct event_base *base, const struct reread_ops *ops, void *context)
{
    struct reread *r = calloc(1, sizeof(*r));

    if (!r)
        return -ENOMEM;
    *r = (struct reread){.base = base, .ops = ops, .context = context};
    r->deadline = evtimer_new(base, on_deadline, r);
    if (!r->deadline) {
        free(r);
        return -ENOMEM;
    }
    *ret = r;
    return 0;
}

void reread_ask(struct reread *r, uint64_t answer_usec)
{
    r->answer_usec = answer_usec;
    if (!r->aside) {
        begin_reading(r);
        return;
    }
    r->again = true;
    if (r->late)
        set_deadline(r);
}

struct reread *reread_free(struct reread *r)
{
    if (!r)
        return NULL;
    forget_reading(r);
    event_free(r->deadline);
    free(r);
    return NULL;
}
