/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/task.h: fork and join inside a job, over all workers of the pool.
 *
 *     WSD_TASK_1(long, fib, int, n)
 *     {
 *         if (n < 2)
 *             return n;
 *         WSD_SPAWN(fib, n - 1);
 *         long b = WSD_CALL(fib, n - 2);
 *         return WSD_SYNC(fib) + b;
 *     }
 *
 *     static int run(struct wsd_job *job, struct wsd_worker *self)
 *     {
 *         return wsd_job_print(job, "%ld\n", WSD_CALL(fib, 32)) ? 1 : 0;
 *     }
 *
 * Spawns and syncs pair up like brackets: a sync joins the youngest spawn of this task that was not joined yet, and a
 * task joins every child before it returns. A spawned task may run on this worker or on another one, before or at its
 * sync. A sync whose child was stolen runs other tasks meanwhile; it never blocks a worker that has something to do.
 * So a task must not hold a lock across a sync.
 */
