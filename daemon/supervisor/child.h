/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h: the process of an executor. wsd starts it itself, or wsd-spawn does under the uid of a user. Everything here
 * is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "spawner/packet.h"
#include "supervisor/cgroup.h"
#include "supervisor/child-program.h"

struct child;
struct helper;
struct identity_question;

#define CHILD_WHY 192u       /* bytes of the reason why a child could not be started */
#define CHILD_OWN UINT32_MAX /* the uid of wsd itself */

struct child_end {
    int code, status; /* as waitid(2) tells */
    bool orphan;      /* wsd-spawn had ended before it */
    const char *why;  /* why it could not be started; "": it was, or that is not known. For the time of the call */
    bool late;        /* no answer came in time, so the next one is as unlikely to start */
    enum cgroup_end memory;
};

struct child_options {
    struct event_base *base;
    const struct child_program *program;
    uint32_t uid;    /* CHILD_OWN: wsd's own */
    uint32_t number; /* of the executor, for the log */
    uint32_t workers;
    uint64_t memory; /* bytes; 0: without limit */
    /* where its cgroup is made; NULL: it gets none. A helper with a unit of its own makes it there instead */
    struct cgroups *cgroups;
    struct cgroup_limits limits;
    int fds[SPAWN_FDS]; /* descriptors for it, in the order of ring/control.h; they stay the caller's */
    /* It has ended and was reaped; the child is freed. Never called from within a call of the caller's. */
    void (*gone)(const struct child_end *end, void *context);
    /* It has begun to end, and how it ends is known, but its end takes time, as with much memory. `gone` follows. Not
     * called where the kernel reports too late: before Linux 6.9, or where wsd may not look into the process. */
    void (*going)(int code, int status, void *context);
    void *context;
};

/* Starts one of wsd's own uid; for another one there is helper_start(). Returns 0 or a negative errno. */
int child_start(struct child **ret_child, const struct child_options *options);
/* Words to add to the errno with which a process could not be started: what is missing. "": not known. */
const char *child_lacks(int error);
/* SIGKILL; `gone` follows. */
void child_kill(struct child *c);
/* It has all the threads that it starts by itself: `going` may be called from now on. */
void child_ready(struct child *c);
/* 0: not known yet. */
pid_t child_pid(const struct child *c);
/* Resident bytes that are its own; 0: not known. */
uint64_t child_resident(const struct child *c);
/* Whether wsd-spawn, which had started it, has ended. */
bool child_orphan(const struct child *c);
/* Whether the kernel has killed it because of memory, so far. */
enum cgroup_end child_memory(const struct child *c);
/* Forgets the child: no more calls. It is killed, unless it writes a core, for which it has its time. It is reaped when
 * it is gone, which takes long with much memory; nothing waits for that. NULL is fine. Returns NULL. */
struct child *child_forget(struct child *c, bool writes_core);
/* Forgets processes that were not reaped yet. [at the end] */
void child_forget_remains(void);

/* --- for helper.c ------------------------------------------------------------------------------------------------ */

/* What is done for a child by what has started it. */
struct child_ops {
    void (*kill)(struct child *c);
    void (*ended)(struct child *c); /* its pidfd reported its end */
};

struct child {
    const struct child_ops *ops;
    struct list link;      /* in the helper's children, in the remains, or in none */
    struct helper *helper; /* NULL: started by wsd itself */
    uint32_t number;
    pid_t pid; /* 0: not known */
    int pidfd;
    struct event *event; /* the pidfd */
    /* Two of its threads; at least one of them is not the last to end. */
    struct child_thread {
        struct child *child;
        pid_t tid;
        int fd; /* pidfd; -1: none */
        struct event *event;
    } threads[2];
    struct event *going_timer; /* armed when one of the threads has ended; NULL: none ever has */
    uint32_t n_going;          /* attempts that did not find how it ends */
    uint32_t n_looks;          /* checks whether it writes a core */
    struct cgroup *cgroup;
    void (*gone)(const struct child_end *end, void *context); /* NULL: forgotten */
    void (*going)(int code, int status, void *context);
    void *context;
    /* The rest is for a child of the helper's. */
    struct event *told; /* calls `gone` from the loop */
    struct cgroups *cgroups;
    struct cgroup_limits limits;
    struct identity_question *question;
    struct spawn_request request;
    int fds[SPAWN_FDS_MAX];
    bool wants_start, wants_kill, started;
    bool exited; /* the pidfd says so */
    bool orphan; /* its helper has ended, so how it ended stays unknown */
    bool telling;
    int code, status;
    char why[CHILD_WHY]; /* as in struct child_end, like `late` */
    bool late;
};

/* NULL: no memory. Nothing is started yet. */
struct child *child_new(const struct child_options *options, const struct child_ops *ops);
struct child *child_free(struct child *c);
void child_gone(struct child *c, int code, int status);
int child_watch(struct child *c, struct event_base *base);
