/* SPDX-License-Identifier: Apache-2.0
 *
 * call.h: calls: the open requests of a connection. [loop]
 *
 * Each kind of call has its operations and its part of the union, in the file that serves it.
 */
#pragma once

#include <string.h>

#include "base/code.h"
#include "frontend/cancels.h"
#include "frontend/peer.h"

struct call;

/* A request that was decoded and may be served. */
struct request {
    struct peer *peer;
    uint32_t tag;
    const struct msg *msg;
    struct span body;
    int *fd;         /* the descriptor that came with it, or -1; the code that takes it leaves -1 */
    int *output_fd;  /* likewise the one for the output */
    uint64_t action; /* its number among the last actions; 0: it is not among them. As in struct call */
    /* On the way in: an earlier share of its user has begun with it. On the way out: the next share is to go on. */
    bool begun;
};

/* What a kind of call does. A NULL: it never has to. */
struct call_ops {
    void (*forget)(struct call *c);                             /* the call goes: frees what only its kind has */
    void (*room)(struct call *c);                               /* after call_stall(): the output has room again */
    void (*later)(struct call *c);                              /* after call_later(): its user has a share again */
    void (*cancel)(struct call *c, uint32_t item);              /* CANCEL of the call; may free it */
    void (*credit)(struct call *c, const struct msg_credit *m); /* may free it */
    struct watch *(*opener)(struct call *c, uint32_t item);     /* its job asked for a file; NULL: none */
    /* Before forget(): gives up at most *budget of the jobs that it follows, and subtracts them. False: some are
     * left. */
    bool (*shed)(struct call *c, uint32_t *budget);
    uint32_t (*weight)(const struct call *c); /* what it costs to forget, beyond one */
    bool leaves;                              /* FORGET ends it */
};

/* SUBMIT, AWAIT: a job and its watch. job-watch.c */
struct call_job {
    struct watch watch;
    /* bytes of output for this call, which start at 0 even where it joins a job late */
    uint64_t out_sent, out_allowed;
    uint64_t in_sent, in_allowed; /* bytes of input */
    uint8_t id[16];               /* of the deferred job */
    bool submits;                 /* else AWAIT */
    bool quiet;                   /* the client wants no ACCEPTED */
    bool accepted;                /* the job exists */
    bool left;                    /* nothing is wanted after ACCEPTED */
    bool deferred;                /* it waits for a durable job that only the next wsd will have */
    bool cancel;                  /* deferred: the next wsd is to cancel the job */
};

/* LIST, LIST_WHERE, CANCEL_WHERE. serve-list.c */
struct call_list {
    struct selection *selection; /* NULL: all of it is done */
    bool cancels;
    uint64_t n_cancelled;
    struct cancels unwritten; /* of the cancelled */
};

/* PLUGINS. serve-plugins.c */
struct call_plugins {
    struct plugin_query query;
    char *names;         /* the names to come, each with its NUL */
    size_t at, n, asked; /* bytes of names: the next one, all of them, and the last one that was asked for */
    bool one;            /* only one name was requested */
};

/* RELOAD. serve-plugins.c */
struct call_reload {
    struct plugin_query query;
    char *name;
    uint64_t *owners; /* of the executors to come */
    size_t at, n;
};

/* FUNCTIONS. serve-functions.c */
struct call_functions {
    char *plugin;   /* NULL: of all */
    char *function; /* likewise */
    bool all;       /* of all users */
    uint32_t uid;   /* not all: this user's */
    uint32_t cursor;
};

/* ACTIONS. serve-actions.c */
struct call_actions {
    uint64_t number; /* those with a higher one are to come */
};

/* SCHEDULE. serve-schedule.c */
struct call_schedule {
    struct schedule_query query;
    uint32_t action; /* enum schedule_action */
};

/* WORKERS, TRACE. serve-executors.c */
struct call_executors {
    struct executor_query query;
    struct list answers; /* TRACE: of executors, which were not sent yet */
    const char *what;    /* TRACE: "trace" or "profile" */
    bool starts;         /* TRACE: it begins one */
    bool answered;       /* TRACE: no more answers will come */
};

struct call {
    struct hash_link by_tag;
    struct list link, stalled;
    struct peer *peer;
    const struct call_ops *ops;
    uint64_t action; /* actions.h */
    uint32_t tag;
    bool over;     /* it has had its last frame, and goes at the next occasion */
    bool detached; /* jobs that it submitted go on without it */
    union {
        struct call_job job;
        struct call_list list;
        struct cancels cancel; /* CANCEL of a durable job. serve-await.c */
        struct call_plugins plugins;
        struct call_reload reload;
        struct call_schedule schedule;
        struct call_functions functions;
        struct call_actions actions;
        struct call_executors executors;
        struct dead_query dead;   /* DEAD. serve-dead.c */
        struct call_array *array; /* ARRAY. serve-array.c */
        struct call_batch *batch; /* BATCH. serve-batch.c */
        struct call_lane *lane;   /* LANE_OPEN, LANE_BIND. serve-lane.c */
        struct arena *arena;      /* ARENA_OPEN. serve-arena.c */
        struct runner *runner;    /* RUNNER_OPEN. serve-runner.c */
    };
};

/* Opens a call; its part of the union is 0. NULL: the request was answered already. */
struct call *call_new(const struct request *r, const struct call_ops *ops);
struct call *call_open(struct peer *p, uint32_t tag, const struct call_ops *ops); /* the same, without a request */
/* The job table must not use its watch, if any, at this point. */
void call_free(struct call *c);
struct call *call_find(const struct peer *p, uint32_t tag); /* NULL: none is open */

void call_stall(struct call *c); /* ops->room() when there is room in the output */
void call_later(struct call *c); /* ops->later() when its user has a share again */
/* Each sends the last frame and frees the call: END, or ERROR. */
void call_end(struct call *c);
void call_refuse(struct call *c, uint32_t code, const char *text);

/* To a request that made no call: END, or ERROR. */
void send_end(const struct request *r);
void request_refuse(const struct request *r, uint32_t code, const char *text);

/* For dispatch.c: as struct peer_ops. */
void calls_room(struct peer *p);
void calls_later(struct peer *p);
bool calls_forget(struct peer *p, uint32_t *budget);

static inline struct span span(const char *text)
{
    return (struct span){text, strlen(text)};
}

static inline struct span span_within(const char *text, size_t max)
{
    return (struct span){text, strnlen(text, max - 1)};
}

/* One line for people: what is longer than a message holds is cut off. */
static inline struct span line(const char *text)
{
    return span_within(text, CODEC_TEXT_MAX);
}
