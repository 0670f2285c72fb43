/* SPDX-License-Identifier: Apache-2.0
 *
 * orphans.h: orphans: processes that become wsd's children because their own parents have ended. wsd is a child
 * subreaper, so it gets what an executor has left. It has other orphans too where it is process 1 of a container, was a
 * child subreaper before, or had children before. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <sys/types.h>

struct orphans;

/* Reaps orphans that have ended, from now on. Called before wsd starts any process. One at a time. Returns 0 or a
 * negative errno. */
int orphans_new(struct orphans **ret_orphans, struct event_base *base);
/* NULL is fine; returns NULL. */
struct orphans *orphans_free(struct orphans *o);

/* Makes room for one process that wsd is about to start itself. Returns 0 or -ENOMEM. */
int orphans_reserve(void);
/* This process was started by wsd, after orphans_reserve(): its starter reaps it. The end of that need not be
 * reported. */
void orphans_spare(pid_t pid);
/* Kills (SIGKILL) a process that wsd has started and that nothing else waits for. It is reaped when it is gone, and
 * what it has left is killed as by orphans_end(). Needs no memory and never waits: the kernel may take any time to end
 * a process. */
void orphans_bury(pid_t pid);

/* An executor, or wsd-spawn, has ended: kills what it has left, until nothing of it is there. Leaves reapers alone as
 * long as remains.c waits for one. Leaves orphans of others alone: no_new_privs tells them apart, so in a container
 * that has set it for wsd nothing is killed. */
void orphans_end(void);
/* The same when all executors have ended; waits for it. */
void orphans_end_wait(void);
