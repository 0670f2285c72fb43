/* SPDX-License-Identifier: Apache-2.0
 *
 * client.h: a handle, of the parts that its files look after. One thread a handle; no locks, no globals.
 *
 * Each file needs those before it in this list only. What it has to know of later ones it asks through the struct
 * ..._ops that they give it.
 *
 *   text, failure, given      names, numbers, copies; the words of the last failure; structures of any version
 *   packed                    copies of submits
 *   owner, waiting            the process that a handle belongs to; what ends a wait
 *   address, remote           the ways to a wsd: on this machine, on another one
 *   connection                bytes, frames, tags, what both sides know
 *   connecting                the way to wsd, and the handshake
 *   open, arena, lane-binding files for wsd, shared memory, the direct lane
 *   query                     a question
 *   questions                 those that are waited for
 *   asked                     those that are not
 *   call, submit              jobs in flight, and how one is begun
 *   schedule                  jobs that wsd submits again and again
 *   array, bounds             jobs that go in one frame; how much may be submitted
 *   plain, batch              such jobs: submitted one after the other, or of a batch
 *   direct                    jobs that go by the lane, in an event loop
 *   again                     wsd_client_submit(); jobs that are submitted again
 *   posted                    jobs that other threads submit
 *   loop                      what an event loop calls, and is told
 *   client                    the handle: its beginning and end
 *   calls, map                jobs that are waited for: by the lane, in a batch
 */
#pragma once

#include <errno.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/heap.h"
#include "base/list.h"
#include "call.h"
#include "connection.h"
#include "failure.h"
#include "owner.h"
#include "plain.h"

#define NESTED_MAX 32u /* calls on a handle, each in a callback of the one before */

struct lane;
struct direct;

/* How much the user may submit. */
struct bounds {
    size_t unsent_max, calls_max; /* 0: any */
    bool full;                    /* a submit was refused: room() is due */
    void (*room)(void *userdata);
    void *userdata;
};

/* As state() was told last. LINK_TRYING: nothing yet of the try under way. */
enum link { LINK_TRYING, LINK_UP, LINK_DOWN };

/* What an event loop is told of the handle. */
struct loop {
    uint32_t flags;        /* enum wsd_open_flags */
    uint64_t timeout_usec; /* of each try to connect */
    void (*state)(int error, void *userdata);
    void *state_userdata;
    enum link link;
    uint64_t up_usec;                                                           /* since when it is LINK_UP */
    uint64_t due_usec;                                                          /* LINK_DOWN: when to try again */
    uint32_t failures;                                                          /* one after the other */
    void (*watch)(int fd, short events, uint64_t timeout_usec, void *userdata); /* NULL: nothing watches */
    void *watch_userdata;
    void (*look)(struct wsd_client *client); /* loop.c: tells what has changed */
    int fd;                                  /* as watch was told last */
    short events;
    uint64_t until_usec;
};

/* What wakes the loop, from any thread. */
struct wake {
    void (*wake)(void *userdata);
    void *userdata;
};

struct posted;

/* What a call on the handle has found. It is so again when the call is over: also by an exception out of a callback. */
struct level {
    unsigned depth, n_waits;
    uint64_t stop_at;
};

#define LEVELS (NESTED_MAX + 8u) /* and what calls make of calls */

struct wsd_client {
    struct owner owner;
    struct level levels[LEVELS]; /* of the calls under way, the outermost first */
    bool torn;                   /* callbacks did not return, and calls that made them are under way */
    bool rests;                  /* what comes behind such callbacks is due */
    void (*tear)(struct wsd_client *client, bool last); /* client.c: a callback did not return; last: the outermost */
    bool freed; /* by the user, in a call that is under way: it is destroyed when the outermost one is over */
    void (*destroy)(struct wsd_client *client); /* client.c */
    struct failure failure;                     /* the last one */
    struct connection connection;
    struct call_set calls;
    struct bounds bounds;
    struct wake wake;
    _Atomic(struct posted *) posted; /* posted.c: the newest first [atomic: release/acquire] */
    struct posted *oldest, *newest;  /* of those that were taken out of that and are next */
    struct loop loop;
    struct list closed_arrays; /* array.c: their connection is over, and a callback out of one of their frames is not */
    struct array *spare_array; /* array.c: one that is over; NULL */
    struct buffer spare_body;  /* array.c: the room of one that was sent, without bytes */
    struct plain plain;
    struct list batches;   /* struct wsd_batch */
    struct heap asked;     /* struct asked, by their deadlines, */
    struct list questions; /* and in their order */
    struct lane *lane;     /* NULL until the first wsd_call() or WSD_SUBMIT_DIRECT */
    struct direct *direct; /* NULL until the first WSD_SUBMIT_DIRECT */
    char *job_texts;       /* questions.c: of the last wsd_client_job() */
};

/* A call on it is under way from now on, until client_leavep(). */
static inline void client_begin(struct wsd_client *client)
{
    const struct connection *c = &client->connection;
    uint32_t n = owner_depth(&client->owner);

    if (n < LEVELS)
        client->levels[n] = (struct level){c->depth, c->n_waits, c->stop_at};
    owner_enter(&client->owner);
}

/* Each call on a handle begins with this, and ends with client_leavep(). NULL: the handle belongs to another process;
 * then the call does nothing and returns -ECHILD. */
static inline struct wsd_client *client_enter(struct wsd_client *client)
{
    if (!owner_is_here(&client->owner))
        return NULL;
    client_begin(client);
    return client;
}

/* For a call that makes callbacks, after client_enter(). 0, or -EDEADLK, said: they nest too deep. */
static inline int client_nests(struct wsd_client *client)
{
    return owner_depth(&client->owner) <= NESTED_MAX
               ? 0
               : failure_set(&client->failure, -EDEADLK, CODE_USAGE,
                             "more than %u calls, each in a callback of the one before: return from some", NESTED_MAX);
}

static inline void client_leavep(struct wsd_client **client)
{
    struct wsd_client *c = *client;

    if (!c)
        return;
    uint32_t n = owner_depth(&c->owner) - 1;
    if (n < LEVELS && (c->connection.depth != c->levels[n].depth || c->torn))
        c->tear(c, n == 0);
    if (c->loop.watch && owner_depth(&c->owner) == 1 && !c->freed)
        c->loop.look(c);
    owner_leave(&c->owner);
    if (c->freed && owner_was_idle(&c->owner))
        c->destroy(c);
}

static inline struct wsd_client *client_of(struct connection *c)
{
    return container_of(c, struct wsd_client, connection);
}
