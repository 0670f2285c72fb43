/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h: how many workers run; for the files of this folder only.
 */
#pragma once

#include "pool/worker.h"

int crew_new_worker(struct worker **ret_worker, struct pool *pool);
int crew_set(struct pool *pool, uint32_t n);
void crew_join(struct pool *pool);
bool crew_short(const struct pool *pool);
/* More workers run than were asked for: some have come back from a wait, or the number has shrunk. A worker that is
 * between two tasks should stop. */
bool crew_surplus(const struct pool *pool);
/* Adds a worker if there are too few. [any] */
void crew_complete(struct pool *pool);
/* Called before this worker blocks, and when it goes on. [owner] */
void crew_leave(struct worker *w);
void crew_return(struct worker *w);
/* Called before a worker that is counted sleeps in the pool, and when it goes on. The monitor leaves it alone
 * meanwhile. [owner] */
void crew_rest(struct worker *w);
void crew_wake(struct worker *w);
/* The worker sleeps in what it runs: as crew_leave(), in its name. Nothing if it has gone on. [monitor] */
void crew_miss(struct worker *w);
/* A missed worker has gone on: as crew_return(). Nothing if it is not missed. [owner, monitor] */
void crew_found(struct worker *w);

/* Called where something that this worker ran has ended. [owner] */
static inline void crew_between(struct worker *w)
{
    /* relaxed: only its own thread has use for the answer; a mark that is missed is found after the next task */
    if (__builtin_expect(atomic_load_explicit(&w->presence, memory_order_relaxed) == WORKER_MISSED, false))
        crew_found(w);
}

/* A root or ready piece, or a task, is there. Wakes a worker, or adds one, if one is due. Call after a seq_cst
 * publication. [any] */
void pool_tell_root(struct pool *pool);
void pool_tell_task(struct pool *pool);
