/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/future.h: values that are computed once, by whichever worker comes first, and waited for in any order.
 *
 *     static int area(struct wsd_worker *self, void *arg, void **ret_value) { ...; *ret_value = result; return 0; }
 *
 *     struct wsd_future f;
 *     wsd_future_begin(self, &f);
 *     wsd_future_start(self, &f, area, &shape);
 *     ...
 *     int error = wsd_future_wait(self, &f, &value);
 *
 * Spawns and syncs (wsd/task.h) are brackets and cost next to nothing; futures cost a hundred nanoseconds and form any
 * graph without cycles. Code that has the address may wait, before or after the start, any number of times. A cycle of
 * futures that wait for each other never ends.
 *
 * A wait computes the future itself if that has not begun. Otherwise it helps with what the future has spawned, and
 * with nothing else. So it cannot leave a task that others wait for stuck under unrelated work on its stack. If there
 * is nothing to help with, it sleeps, and another worker takes the CPU. At most 256 workers more than were asked for
 * come in this way. So let at most that many tasks wait at once for what only another root will start. While any future
 * of a pool is begun and not done, joins of wsd/task.h keep to the same rule.
 *
 * One graph is not allowed. Do not wait for a future that a task has yet to set or start, if that task was already in a
 * sync when the future was begun. The waiter may run on top of that sync. So a task that serves requests of others has
 * the futures set by a thread of its own. Or it begins a future itself, before it syncs.
 *
 * Start or set every future that was begun, exactly once, whatever happens. It lives until that was done and all waits
 * for it have returned. All of that is before the job's function returns. If the job is cancelled, its futures are not:
 * their functions look at wsd_job_cancelled() themselves and return an error.
 */
#ifndef WSD_FUTURE_H
#define WSD_FUTURE_H

#include "task.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The caller's memory; what is in it is the pool's. 128 bytes. Since 1. */
struct wsd_future {
    const struct wsd_task_ops *ops;
    uint64_t reserved[15];
};

/* Makes a future ready for use. Call it first. `self` is the worker that runs the caller. Since 1. */
static inline void wsd_future_begin(struct wsd_worker *self, struct wsd_future *future)
{
    self->ops->future_begin(self, future);
}

/* Has fn(self, arg, &value) run on some worker, or in a wait, later or at once. The function sets value, which may be
 * NULL and belongs to the program. It joins what it spawns, and returns 0 or an error of its own. Call this once for
 * each future. `self` is the caller's worker, or NULL from a thread that is none. Since 1. */
static inline void wsd_future_start(struct wsd_worker *self, struct wsd_future *future, wsd_future_fn *fn, void *arg)
{
    future->ops->future_start(self, future, fn, arg);
}

/* Gives a future its value and error without computing anything (a promise), instead of a start. From any thread. Since
 * 1. */
static inline void wsd_future_set(struct wsd_future *future, void *value, int error)
{
    future->ops->future_set(future, value, error);
}

/* Waits until a future is done. Returns its error, or 0 if there is none, and sets *ret_value to its value, unless
 * ret_value is NULL. The caller's worker is `self`, or NULL from a thread that is none. Such a thread computes the
 * future if that has not begun, else it sleeps. Since 1. */
static inline int wsd_future_wait(struct wsd_worker *self, struct wsd_future *future, void **ret_value)
{
    return future->ops->future_wait(self, future, ret_value);
}

/* Returns whether a future is done, so that a wait would return at once. From any thread. Since 1. */
static inline bool wsd_future_done(const struct wsd_future *future)
{
    return future->ops->future_done(future);
}

/* Runs one piece of whatever the pool has to do, on a thread that is no worker. Returns false if there was nothing to
 * do. The future only says which pool. Do not call it on a thread that is to set a future: what it takes up may wait
 * for that one. Since 1. */
static inline bool wsd_future_help(struct wsd_future *future)
{
    return future->ops->future_help(future);
}

#ifdef __cplusplus
}
#endif

#endif
