/* SPDX-License-Identifier: Apache-2.0
 *
 * owner.h: the process that a handle belongs to: the one that opened or adopted it. A child of fork() has a copy of the
 * handle, and with it the same connection, so it must neither read nor write there.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct owner {
    /* In a private page, which the kernel clears in a child: 1 in the owner. [atomic: relaxed; the kernel writes it] */
    _Atomic uint32_t *here;
    pid_t pid; /* of the owner, where the kernel clears no pages (before Linux 4.14); else 0 */
    /* Calls under way, one inside the other. In a child: not 0 if another thread, or a callback, was using the handle
     * when the process forked. What is behind it may be half-way then. [atomic: release; the kernel copies it] */
    _Atomic uint32_t in_use;
};

/* This process is the owner. 0 or -ENOMEM. */
int owner_init(struct owner *o);
void owner_deinit(struct owner *o);
/* From now on it is this process. */
void owner_take(struct owner *o);
bool owner_is_here(const struct owner *o);
void owner_enter(struct owner *o);
void owner_leave(struct owner *o);
/* But the outermost one, all calls under way are over. */
void owner_leave_all(struct owner *o);
/* Calls under way, one inside the other. */
uint32_t owner_depth(const struct owner *o);
/* What the handle points to was whole at the fork. */
bool owner_was_idle(const struct owner *o);
