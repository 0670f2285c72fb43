/* SPDX-License-Identifier: Apache-2.0
 *
 * orphans.h: processes that become wsd's children because their own parents have ended: where wsd is process 1 of a container, or a child
 * subreaper. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <sys/types.h>

struct orphans;

/* From now on those that have ended are reaped. 0 with NULL where wsd gets none, or -ENOMEM. */
int orphans_new(struct orphans **ret_orphans, struct event_base *base);
/* NULL is fine; returns NULL. */
struct orphans *orphans_free(struct orphans *o);

/* Makes room for one process that wsd is about to start itself. 0 or -ENOMEM. */
int orphans_reserve(void);
/* This one was started by wsd, after orphans_reserve(): what has started it reaps it. Nothing needs to be said when that has been done. */
void orphans_spare(pid_t pid);
