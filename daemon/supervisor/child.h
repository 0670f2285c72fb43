/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h: the process of an executor, whoever starts it: wsd itself, or wsd-spawn under the uid of a user. Everything
 * here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "spawner/packet.h"
#include "supervisor/cgroup.h"

struct child;
struct helper;
struct identity_question;

#define CHILD_WHY 192u       /* bytes of why a child could not be started */
#define CHILD_OWN UINT32_MAX /* the uid of wsd itself */

struct child_end {
    int code, status; /* as waitid(2) tells */
    bool orphan;      /* wsd-spawn had gone before it */
    const char *why;  /* it could not be started; "": it was, or that is not known. For the time of the call */
    bool late;        /* that is because there was no answer in its time: the next one is as unlikely to be started */
    enum cgroup_end memory;
};

/* What all executors of a wsd are started with. */
struct child_program {
    int predecessor_fd;      /* of predecessor.h; -1: none */
    int binary_fd;           /* wsd-executor, held open so that an upgrade on disk cannot mix versions */
    const char *plugin_dirs; /* colon-separated */
    bool any_path, pin;
    int log_level;
    uint64_t stack_size;
    uint64_t static_tls; /* bytes: see [executor] static-tls in wsd.conf(5) */
    const char *sandbox; /* as ring/control.h says, without memory */
};

struct child_options {
    struct event_base *base;
    const struct child_program *program;
    struct helper *helper; /* for another uid */
    uint32_t uid;          /* CHILD_OWN: wsd's own */
    uint32_t number;       /* of the executor, for the log */
    uint32_t workers;
    uint64_t memory; /* bytes; 0: without limit */
    /* wsd's, where its own is made; NULL: it has none. A helper with a unit of its own makes it there */
    struct cgroups *cgroups;
    struct cgroup_limits limits;
    int fds[SPAWN_FDS]; /* what it gets, in the order of control.h; they stay the caller's */
    /* It ended, and was reaped; the child is no more. Never from a call of the caller's. */
    void (*gone)(const struct child_end *end, void *context);
    /* It has begun to end and takes its time, as one with much memory does; how it ends is known already. `gone`
     * follows. Not called where the kernel tells the one or the other too late: before Linux 6.9, or where wsd may not
     * look into it. */
    void (*going)(int code, int status, void *context);
    void *context;
};

/* 0 or a negative errno. One that is started by the helper may still fail: then it is gone with exit code 127. */
int child_start(struct child **ret_child, const struct child_options *options);
/* What is not there, in words that go behind those of the errno with which a process could not be started; "" where
 * that is not known. */
const char *child_lacks(int error);
/* SIGKILL; `gone` follows. */
void child_kill(struct child *c);
/* All its threads are there that it has by itself: `going` may be told from now on. */
void child_ready(struct child *c);
/* 0: not known yet. */
pid_t child_pid(const struct child *c);
/* wsd-spawn has gone, which had started it. */
bool child_orphan(const struct child *c);
/* Whether the kernel has ended it for its memory, so far. */
enum cgroup_end child_memory(const struct child *c);
/* No call any more. It is killed, unless it writes a core, for which it has its time; and reaped when it is gone, which
 * takes long where it has much memory, without anybody waiting for it. NULL is fine; returns NULL. */
struct child *child_forget(struct child *c, bool writes_core);
/* Processes that have not been reaped are nobody's any more. [at the end] */
void child_forget_remains(void);

/* The arguments of an executor behind WORKERS, as the program says; the texts live in `ret`. */
struct child_arguments {
    char level[16], stack[24];
    char *argv[5]; /* PLUGIN_DIRS PATHS LOG_LEVEL PIN STACK */
};
void child_arguments(const struct child_program *program, struct child_arguments *ret);
/* Becomes another program, with n descriptors as 3, 4, ..., and what is passed on of wsd's environment. Returns only
 * where that cannot be: a negative errno. */
int child_become(const struct child_program *program, const int *fds, size_t n, const char *file, char *const *argv);
/* Starts a program that is held open, with n descriptors, at most SPAWN_FDS + 1, as 3, 4, ..., plain signals, and what
 * is passed on of wsd's environment. words: which of them is its stdout and stderr too; -1: those are wsd's. 0 or a
 * negative errno. */
int child_spawn(const struct child_program *program, const int *fds, size_t n, int words, int binary_fd,
                char *const *argv, pid_t *ret_pid);

/* --- for helper.c ------------------------------------------------------------------------------------------------ */

struct child {
    struct list link;      /* the helper's children, or the remains, or none */
    struct helper *helper; /* NULL: wsd's own */
    uint32_t number;
    pid_t pid; /* 0: not known */
    int pidfd;
    struct event *event; /* the pidfd */
    /* Two of its threads, one of which is not the last to end. */
    struct child_thread {
        struct child *child;
        pid_t tid;
        int fd; /* pidfd; -1: none */
        struct event *event;
    } threads[2];
    struct event *going_timer; /* one of them has ended; NULL: none ever has */
    uint32_t n_going;          /* looks in vain for how */
    uint32_t n_looks;          /* whether it writes a core */
    struct cgroup *cgroup;
    void (*gone)(const struct child_end *end, void *context); /* NULL: nobody asks any more */
    void (*going)(int code, int status, void *context);
    void *context;
    /* of the helper's */
    struct event *told; /* `gone`, from the loop */
    struct cgroups *cgroups;
    struct cgroup_limits limits;
    struct identity_question *question;
    struct spawn_request request;
    int fds[SPAWN_FDS_MAX];
    bool wants_start, wants_kill, started;
    bool exited; /* the pidfd says so */
    bool orphan; /* its helper is gone: nobody tells how it ended */
    bool telling;
    int code, status;
    char why[CHILD_WHY]; /* of child_end, as `late` */
    bool late;
};

struct child *child_free(struct child *c);
void child_gone(struct child *c, int code, int status);
int child_watch(struct child *c, struct event_base *base);
