/* SPDX-License-Identifier: Apache-2.0
 *
 * call.h: a call: an open request on a connection. For the files that serve requests. [loop]
 */
#pragma once

#include "frontend/peer.h"

enum call_kind {
    CALL_SUBMIT,
    CALL_AWAIT,
    CALL_LIST,
    CALL_PLUGINS,
    CALL_RELOAD,
    CALL_WORKERS,
    CALL_TRACE,
    CALL_DEAD,
    CALL_LANE,
    CALL_BIND,
    CALL_CANCEL,
    CALL_SCHEDULE,
    CALL_ARRAY,
    CALL_BATCH,
    CALL_ARENA
};

struct call {
    struct watch watch; /* SUBMIT, AWAIT */
    struct hash_link by_tag;
    struct list link, stalled;
    struct peer *peer;
    enum call_kind kind;
    uint32_t tag;
    /* bytes of output for this call, which start at 0 even where it joins a job late */
    uint64_t out_sent, out_allowed;
    uint64_t in_sent, in_allowed;      /* bytes of input */
    struct plugin_query query;         /* PLUGINS, RELOAD */
    char *names;                       /* PLUGINS: the names to come, each with its NUL; RELOAD: the one name */
    uint64_t *owners;                  /* RELOAD: owners of the executors to come */
    struct dead_query dead;            /* DEAD */
    struct selection *selection;       /* LIST, CANCEL */
    uint64_t n_cancelled;              /* CANCEL */
    size_t at, n;                      /* position. PLUGINS: in bytes of names; RELOAD: in owners */
    struct schedule_query schedule;    /* SCHEDULE */
    size_t asked;                      /* PLUGINS: position of the last name that was asked for */
    bool one;                          /* PLUGINS: only one name was requested */
    struct executor_question question; /* WORKERS, TRACE */
    struct list answers;               /* TRACE: answers of executors that were not sent yet */
    uint32_t action;                   /* TRACE: enum trace_action; SCHEDULE: enum schedule_action */
    bool answered;                     /* TRACE: no more answers will come */
    bool quiet;                        /* the client wants no ACCEPTED */
    bool accepted;                     /* SUBMIT, AWAIT: its job exists */
    bool left, over;                   /* SUBMIT. left: nothing is wanted after ACCEPTED; over: ACCEPTED was sent */
    struct call_lane *lane;            /* LANE, BIND */
    struct arena *arena;               /* ARENA */
    struct call_array *array;          /* ARRAY */
    struct call_batch *batch;          /* BATCH */
    uint8_t id[16];                    /* of the deferred job */
    bool deferred;                     /* it waits for a durable job that only the next wsd will have */
    bool cancel;                       /* deferred: the next wsd is to cancel the job */
};

/* Fields that only few calls need. */
struct call_lane {
    struct call *call;
    struct lane_user user; /* LANE */
    struct lane_bind bind; /* BIND */
};

/* NULL: the request was answered already. */
struct call *call_new(struct peer *p, uint32_t tag, enum call_kind kind);
/* The jobs must not use its watch, if any, at this point. */
void call_free(struct call *c);
/* The call continues when there is room in the output. */
void call_stall(struct call *c);
/* The call continues when its user has a share again. */
void call_later(struct call *c);
/* Sends END and frees the call. */
void call_end(struct call *c);

struct call *call_find(const struct peer *p, uint32_t tag); /* NULL: none is open */

/* lane.c */
void lane_open(struct peer *p, uint32_t tag);
void lane_bind(struct peer *p, uint32_t tag, const struct msg_lane_bind *m);
void lane_waits(struct peer *p, uint32_t tag);
void lane_close(struct peer *p, uint32_t tag);
void lane_forget(struct call *c); /* the call goes */

/* dispatch.c, for array.c too. call_request(): what a SUBMIT says of its job, without the input. */
struct job_request call_request(const struct peer *p, const struct msg_submit *m);
/* Answers a CANCEL by id. r: 0, -EALREADY where the target had ended, or another error, for which `none` has the
 * words. */
void call_cancelled(struct peer *p, uint32_t tag, int r, const char *none);
/* The cost of such a job without its frame, in units of share.h. */
uint32_t call_cost(const struct job_request *r);
int call_send_open(struct call *c, uint32_t serial, const char *path, uint32_t item);

/* array.c */
/* limit of an ARRAY's items times the jobs that each runs after: together they are one request */
#define ARRAY_AFTER_MAX 65536u
void array_submit(struct peer *p, uint32_t tag, const struct msg_submit *m, const struct frame *frame);
struct watch *array_watch(struct call *c, uint32_t item); /* NULL: there is no such item */
void array_cancel(struct call *c, uint32_t item);
void array_credit(struct call *c, uint32_t item, uint64_t bytes);
void array_room(struct call *c);            /* the output has room again; the call may go */
void array_forget(struct call *c);          /* the call goes */
uint32_t array_items(const struct call *c); /* 0: it is no array */
void call_batch(struct peer *p, uint32_t tag, const struct msg_batch *m);
/* Puts the job into the open BATCH with this tag. Returns NULL, or why not, with its code. */
const char *call_in_batch(struct peer *p, uint32_t tag, struct job_request *r, uint32_t *ret_code);
void call_batch_cancel(struct call *c);
void call_batch_forget(struct call *c); /* the call goes */

/* arena.c */
void arena_open(struct peer *p, uint32_t tag, int *fd); /* takes the descriptor if it becomes an arena */
void arena_close(struct peer *p, uint32_t tag);
struct arena *arena_find(struct peer *p, uint32_t tag); /* NULL: there is none */
void arena_forget(struct call *c);                      /* the call goes */

/* list.c: jobs by their properties */
void list_jobs(struct peer *p, uint32_t tag, const struct jobs_filter *filter);
void list_where(struct peer *p, uint32_t tag, const struct msg_filter *m);
void list_cancel(struct peer *p, uint32_t tag, const struct msg_filter *m);
void list_pump(struct call *c);
void call_send_job(const struct job_info *info, void *call); /* sends a JOB */

/* ask.c */
void ask_workers(struct peer *p, uint32_t tag, const struct msg_workers *m);
void ask_trace(struct peer *p, uint32_t tag, const struct msg_trace *m);
void ask_pump(struct call *c);
void ask_forget(struct call *c); /* the call goes */
