/* SPDX-License-Identifier: Apache-2.0
 *
 * find.h: what a worker does next; for the files of this folder only.
 */
#pragma once

#include "pool/worker.h"

/* A task that was taken from another worker's stack. */
struct stolen {
    struct worker *victim;
    struct deque_entry *entry; /* the victim's; good until the task is done */
};

/* What a worker found to do: one of these. */
struct found {
    struct pool_node *root;
    struct ready *ready;
    struct stolen task; /* if the others are NULL */
};

bool worker_find(struct worker *w, struct found *f);
/* The same, counted as a searcher meanwhile. */
bool worker_search(struct worker *w, struct found *f);
struct pool_node *worker_take_root(struct worker *w);
/* Steals from any worker: the last victim that had work first, then round from a random one. [owner of w] */
bool worker_steal(struct worker *w, struct stolen *ret);
/* Steals what the thief began as `origin`. The victim may have begun something else meanwhile: look at the entry's
 * origin. [owner of w] */
bool worker_steal_origin(struct worker *w, struct worker *thief, uint64_t origin, struct stolen *ret);
/* The look before sleeping: whether any worker, or just `only` if not NULL, has a task to steal. Publishes for workers
 * that keep theirs private in a long leaf. [owner of w] */
bool worker_look(struct worker *w, struct worker *only);
/* Wakes the next worker if work is left for it. [owner of w] */
void worker_wake_if_left(struct worker *w);
/* Whether there is a root or a ready piece; whether there is a task. [any] */
bool pool_has_roots(struct pool *pool);
bool pool_has_tasks(struct pool *pool);
/* Whether there is any of these, also tasks that their owner keeps private. [monitor, after it has announced its sleep;
 * else a guess] */
bool pool_has_work(struct pool *pool);
void worker_relax(void);
/* Records how many ticks (base/ticks.h) a stolen task took, so that thieves skip tasks that are too short. [owner of
 * w] */
void worker_weigh(struct worker *w, uint64_t ticks);
