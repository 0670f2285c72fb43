/* SPDX-License-Identifier: Apache-2.0
 *
 * executor.h: one wsd-executor process as wsd sees it: its start, its watch and its end. Everything here is [loop].
 *
 * An executor may also be a runner: a client that takes jobs over its connection. Then there is no process. What
 * serves the connection plays the executor's end of the rings, and gets the control packets by a call.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "ring/control.h"
#include "ring/front.h"
#include "supervisor/child.h"
#include "supervisor/remains.h"
#include "supervisor/words.h"

struct executor;
struct far_end;
struct far_ends;

/* Upward calls to the jobs. None may free anything, except executor_free() in dead. */
struct executor_ops {
    void (*ready)(struct executor *e, void *context);
    /* Completions or a fault note may be there: look with front_next(). */
    void (*bell)(struct executor *e, void *context);
    /* A packet of the executor's; its descriptor, if any, was closed. */
    void (*control)(struct executor *e, const struct control *c, void *context);
    /* The last call. The process was reaped; or it left a fault note and is dying; or it was killed and its end takes
     * time. In the latter cases its other threads may still write for a moment. Nothing is left of the commands that it
     * had started. code, status: si_code and si_status of waitid(2). */
    void (*dead)(struct executor *e, int code, int status, void *context);
};

/* What takes the jobs of a runner from the rings. */
struct executor_runner {
    /* A packet for it. The descriptor stays the caller's. Must not call `dead`. Returns 0 or a negative errno. */
    int (*packet)(void *context, const struct control *c, int fd);
    void (*kill)(void *context); /* its connection is to end: executor_runner_gone() follows, but not from here */
    void *context;
};

struct executor_options {
    struct event_base *base;
    const struct child_program *program;
    struct helper *helper;     /* NULL: none is needed */
    uint32_t uid;              /* the uid under which it runs; CHILD_OWN: wsd's own */
    uint64_t owner;            /* its owner, for async_close() */
    struct far_ends *far_ends; /* NULL: its owner is trusted */
    uint32_t workers;
    uint64_t memory;         /* bytes that it may allocate; 0: without limit */
    struct cgroups *cgroups; /* NULL: it gets no cgroup */
    uint64_t tasks;          /* limit of its cgroup; 0: without limit */
    uint32_t cpu_weight;     /* of its cgroup; 0: the default */
    bool leaves_core;        /* it writes a core, so it is not killed while it dies of a fault */
    uint32_t number;         /* the EXECUTOR in EXECUTOR.WORKER */
    const struct executor_ops *ops;
    void *context;
};

struct executor {
    struct front front;
    struct child *child;                  /* NULL: it is gone */
    const struct executor_runner *runner; /* NULL: it is a process */
    struct far_end *control;
    int control_fd; /* the same */

    struct words words;
    uint32_t number;
    uint64_t owner;
    uint64_t started_usec;
    bool ready;
    bool killed;            /* wsd killed it */
    bool orphan;            /* when dead: wsd-spawn, which had started it, had ended */
    char why[CHILD_WHY];    /* when dead: why it could not be started; or "" */
    bool late;              /* as in struct child_end */
    bool finishing;         /* it was told to end */
    bool heard;             /* when dying: its last packets were taken, */
    int n_last;             /* so many of them */
    bool dying;             /* it has ended, or is about to: `dead` is called when its commands are gone, too */
    int code, status;       /* how it ended */
    struct remains remains; /* the processes of its commands */
    uint64_t cpu_usec;      /* CPU time of its process when it was about to end; 0: not known */
    bool leaves_core;
    enum cgroup_end memory; /* when dead */
    struct event *bell_event, *control_event, *control_write_event;
    struct list outbox; /* control packets that did not fit the socket */
    uint32_t n_outbox;
    const struct executor_ops *ops;
    void *context;
};

/* Starts an executor. Returns 0 or a negative errno. */
int executor_new(struct executor **ret_executor, const struct executor_options *options);
/* The same for a runner, which is ready at once. Of the options only base, number, ops and context count. */
int executor_new_runner(struct executor **ret_executor, const struct executor_options *options,
                        const struct executor_runner *runner);
/* Its connection has ended, for this reason, or it has left in order (NULL): calls `dead`. */
void executor_runner_gone(struct executor *e, const char *why);
/* Frees it. Kills the process if that was not done, unless it writes a core. The process is reaped when it is gone,
 * which takes long with much memory; nothing waits for that. NULL is fine. Returns NULL. */
struct executor *executor_free(struct executor *e);

/* SIGKILL; `dead` follows. */
void executor_kill(struct executor *e);
/* Writes into ret the last lines of its stdout and stderr since then, in one line; "" if there are none. */
void executor_last_words(struct executor *e, uint64_t since_usec, char *ret, size_t size);
/* Tells it that there is no more work: it ends by itself, and `dead` follows. */
void executor_finish(struct executor *e);

/* Takes every packet that is there now, so that a job's packets come before its end. */
void executor_take_control(struct executor *e);
/* False: that cannot be done now, and `bell` follows when it can. */
bool executor_hears(struct executor *e);

/* Sends a packet with an optional descriptor, which stays the caller's. Queues it if the socket is full. Returns 0, or
 * a negative errno: then the executor is dying, and `dead` follows. */
int executor_send(struct executor *e, const struct control *c, int fd);
