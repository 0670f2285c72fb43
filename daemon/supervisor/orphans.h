/* SPDX-License-Identifier: Apache-2.0
 *
 * orphans.h: processes that become wsd's children because their own parents have ended. wsd is a child subreaper, so
 * that it gets what an executor has left; as process 1 of a container, or where it was a child subreaper or had
 * children before, it has others too. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <sys/types.h>

struct orphans;

/* From now on those that have ended are reaped. Before wsd starts any. One at a time. 0 or a negative errno. */
int orphans_new(struct orphans **ret_orphans, struct event_base *base);
/* NULL is fine; returns NULL. */
struct orphans *orphans_free(struct orphans *o);

/* Makes room for one process that wsd is about to start itself. 0 or -ENOMEM. */
int orphans_reserve(void);
/* This one was started by wsd, after orphans_reserve(): what has started it reaps it. Nothing needs to be said when
 * that has been done. */
void orphans_spare(pid_t pid);
/* SIGKILL for one that wsd has started, which nothing else waits for any more: it is reaped when it is gone, and what
 * it has left is killed as by orphans_end(). Needs no memory, and never waits: the kernel may take any time to end a
 * process. */
void orphans_bury(pid_t pid);

/* An executor, or who starts them, has ended: what it has left is killed, until nothing of it is there. Reapers are
 * left alone as long as there is one that remains.c waits for. Others' orphans live as long as they like; they are told
 * apart by no_new_privs, so that in a container that has set it for wsd nothing is killed. */
void orphans_end(void);
/* The same, waited for, when all executors have ended. */
void orphans_end_wait(void);
