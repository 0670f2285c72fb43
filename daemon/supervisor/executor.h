/* SPDX-License-Identifier: Apache-2.0
 *
 * executor.h: one wsd-executor process as wsd sees it: spawned, watched, ended. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "ring/control.h"
#include "ring/ring.h"
#include "supervisor/child.h"
#include "supervisor/remains.h"
#include "supervisor/words.h"

struct executor;

/* Upward calls: the supervisor is below the jobs. Each may free nothing but by executor_free() in dead. */
struct executor_ops {
    void (*ready)(struct executor *e, void *context);
    /* Completions may be there, or a fault note: look with front_next(). */
    void (*bell)(struct executor *e, void *context);
    /* A packet of the executor's; the descriptor, if any, was closed. */
    void (*control)(struct executor *e, const struct control *c, void *context);
    /* The process is gone and reaped, or has left a fault note and is dying, or was killed and takes its time: nothing
     * more will come, but its other threads may still write for a moment. Nothing is left of the commands that it had
     * started. status: as waitid(2) tells, si_code and si_status. */
    void (*dead)(struct executor *e, int code, int status, void *context);
};

struct executor_options {
    struct event_base *base;
    const struct child_program *program;
    struct helper *helper; /* NULL: none is needed */
    uint32_t uid;          /* that it runs under; CHILD_OWN: wsd's own */
    uint64_t owner;        /* whose it is, as async_close() has it */
    uint32_t workers;
    uint64_t memory;         /* bytes that it may allocate; 0: without limit */
    struct cgroups *cgroups; /* NULL: none is made for it */
    uint64_t tasks;          /* in its cgroup; 0: without limit */
    uint32_t cpu_weight;     /* of its cgroup; 0: as all */
    bool leaves_core;        /* so it is not killed while it dies of a fault */
    uint32_t number;         /* the EXECUTOR in EXECUTOR.WORKER */
    const struct executor_ops *ops;
    void *context;
};

struct executor {
    struct front front;
    struct child *child; /* NULL: it is gone */
    int control_fd;
    struct words words;
    uint32_t number;
    uint64_t owner;
    bool ready;
    bool killed;            /* by us */
    bool orphan;            /* when it is dead: wsd-spawn had gone, which had started it */
    char why[CHILD_WHY];    /* when it is dead: it could not be started, and why; or "" */
    bool late;              /* as child_end has it */
    bool finishing;         /* it was told to end */
    bool dying;             /* it has ended, or is about to: `dead` is called when nothing of its commands is left */
    int code, status;       /* of that */
    struct remains remains; /* of its commands */
    uint64_t cpu_usec;      /* that its process had when it was about to end; 0: not known */
    bool leaves_core;
    enum cgroup_end memory; /* when it is dead */
    struct event *bell_event, *control_event, *control_write_event;
    struct list outbox; /* control packets that did not fit the socket */
    uint32_t n_outbox;
    const struct executor_ops *ops;
    void *context;
};

/* Spawns. 0 or a negative errno. */
int executor_new(struct executor **ret_executor, const struct executor_options *options);
/* Kills where that has not happened, but not who writes a core; the process is reaped when it is gone, which takes long
 * where it has much memory, without anybody waiting for it. NULL is fine; returns NULL. */
struct executor *executor_free(struct executor *e);

/* SIGKILL; `dead` follows. */
void executor_kill(struct executor *e);
/* What it has written to stdout and stderr since then, "" where that is nothing: its last lines, in one. */
void executor_last_words(struct executor *e, uint64_t since_usec, char *ret, size_t size);
/* No more work: the executor ends by itself; `dead` follows. */
void executor_finish(struct executor *e);

/* Takes every packet that is there now: what a job said comes before its end. */
void executor_take_control(struct executor *e);

/* Sends a packet with an optional descriptor (which stays the caller's); queues it where the socket is full. 0 or a
 * negative errno (then the executor is dying: `dead` follows). */
int executor_send(struct executor *e, const struct control *c, int fd);
