/* SPDX-License-Identifier: Apache-2.0
 *
 * results.h: durable jobs that have ended. They are on disk until they expire or, if dead, until a user decides. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"

struct event;
struct job;
struct jobs;
struct user;

struct results {
    struct list stored, dead; /* policies of ended durable jobs: of those that expire, and of the others */
    struct list unwritten;    /* policy_unwritten() */
    struct heap expiring;     /* those in `stored`, by the time when they go (CLOCK_MONOTONIC) */
    struct event *expiry_timer, *save_timer;
};

bool durable_keep(struct job *job);  /* ended and told; true: the store keeps it */
void durable_rest(struct job *job);  /* it has no watches: frees from memory what is on disk */
bool durable_fetch(struct job *job); /* true: its output is being read back first */
/* Whether this user has room for so many more bytes. Drops the user's own oldest ended jobs as far as needed. */
bool durable_room(struct jobs *jobs, struct user *user, uint64_t bytes);
void durable_count(struct job *job, uint64_t bytes); /* it now takes so many bytes on disk */
void durable_unsaved(struct job *job);
void results_insert(struct job *job, uint64_t left_usec); /* ended and on disk; expires after left_usec */
void results_remove(struct job *job);                     /* the opposite; or it is not there */
int durable_code(int error);                              /* the exit code of wsctl(1) for a store's error */
int results_init(struct jobs *jobs);                      /* 0 or -ENOMEM */
void results_deinit(struct jobs *jobs);
void results_rearm(struct jobs *jobs); /* see timers.h */
