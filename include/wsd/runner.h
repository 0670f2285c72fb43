/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/runner.h: take jobs from a running wsd, as an executor does (libwsclient, pkg-config wsclient).
 *
 * A runner is a process of yours that connects to wsd and offers functions under a name. The name stands where the name
 * of a plugin stands: `wsctl submit NAME:FUNCTION`. The functions are those of wsd/plugin.h. With this main(), the
 * source of a plugin is a runner, unchanged:
 *
 *     int main(void)
 *     {
 *         struct wsd_runner *runner = NULL;
 *         int r = wsd_runner_new(&runner, NULL);
 *
 *         r = r < 0 ? r : wsd_runner_offer(runner, &wsd_plugin);
 *         r = r < 0 ? r : wsd_runner_run(runner, 4);
 *         if (r < 0)
 *             fprintf(stderr, "%s\n", wsd_runner_error(runner));
 *         wsd_runner_free(runner);
 *         return r < 0;
 *     }
 *
 * A runner gets only jobs of the user that it runs as. Several runners of one name share them. All that wsd promises
 * for a job it promises for these: one end, quotas, priorities, retries, cancelling, deadlines. When the process dies,
 * its jobs fall under the rules for executors: those of functions with WSD_FN_IDEMPOTENT run again, others end as
 * interrupted.
 *
 * A name that begins with `@` is a place, which takes jobs for whatever plugin: `wsctl submit @NAME/PLUGIN:FUNCTION`. It
 * offers one function, `*`. argv[0] of its jobs is PLUGIN or PLUGIN:FUNCTION. wsd-runner(7) has the rest.
 *
 * A function may fork and join as in a plugin (wsd/task.h and the headers beside it). Threads that help begin when the
 * first one does, one fewer than there are CPUs for, and sleep while no function forks. Their stacks have 8 MiB.
 *
 * What differs from a plugin: there is no sandbox, and wsd_job_command() returns -ENOSYS. The process of a runner is
 * not ended by wsd: when a job does not end in the grace time after it was cancelled, wsd closes the connection. To wsd
 * that is the death of the process, for all jobs that the runner has. Their functions go on until they return.
 *
 * Two ways to use it:
 *  - wsd_runner_run(): threads that run the functions, until wsd_runner_leave(). It connects again when wsd has ended.
 *  - wsd_runner_next() and wsd_runner_finish(): one job after the other, in a loop of your own. They start no thread.
 *    Between them, wsd_runner_call() runs a function of the offer, or the loop does what it likes.
 *
 * A runner may be used by several threads. In a child of fork() its copy can only be freed: every other call returns
 * -ECHILD. Errors are negative errno values, those of wsd/client.h; wsd_runner_error() has the words. */
#ifndef WSD_RUNNER_H
#define WSD_RUNNER_H

#include "client.h"
#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most jobs that a runner can have at once, and the most threads of wsd_runner_run(). Since 0.1. */
#define WSD_RUNNER_CREDIT_MAX  1024
#define WSD_RUNNER_THREADS_MAX 256

struct wsd_runner;

enum wsd_runner_flags {
    /* The ends of wsd_runner_finish() go to wsd with the next wsd_runner_next(), all at once. For a loop that ends many
     * jobs in one turn, and then takes others. wsd_runner_finish() does not wait then. Since 0.1. */
    WSD_RUNNER_GATHER = 1u << 0,
};

/* Settings. Zero all fields that are not used, as WSD_INIT() does. Texts are not kept. Fields are appended. Since 0.1.
 */
struct wsd_runner_options {
    size_t size;
    const char *socket; /* NULL: WSD_SOCKET, else a user's own wsd, else the system's */
    /* Jobs that wsd may give at once, 1 to WSD_RUNNER_CREDIT_MAX; an older wsd gives 256 at most. With 0, it is one for
     * each thread where wsd_runner_run() connects, but only one where wsd_runner_connect() does. More than there are
     * threads saves small jobs the way to wsd and back. It makes a job wait here for a long one before it, though
     * another runner may be idle. */
    uint32_t credit;
    uint64_t flags; /* enum wsd_runner_flags */
};

/* Makes a runner that is not connected yet. options NULL: all zero. On failure *ret_runner is a handle for
 * wsd_runner_error(), or NULL; free it in either case. Returns 0, -ENOMEM, -EINVAL, -E2BIG or -ENAMETOOLONG. Since 0.1.
 */
WSD_EXPORT int wsd_runner_new(struct wsd_runner **ret_runner, const struct wsd_runner_options *options);

/* Says what the runner offers: name, version, help and functions, as those of a plugin. Of the flags,
 * WSD_FN_IDEMPOTENT, WSD_FN_STREAMING and WSD_FN_SHARED count. The structure and its texts must live as long as the runner. `run` may
 * be NULL for wsd_runner_next(). wsd_runner_run() calls init, worker_start, worker_stop and fini where they are set.
 * Of the calls on the runner, init and fini may use wsd_runner_leave() only. Call this once, before the runner
 * connects. Returns 0, -EINVAL, -ENOMEM or -EBUSY. Since 0.1. */
WSD_EXPORT int wsd_runner_offer(struct wsd_runner *runner, const struct wsd_plugin *offer);

/* Connects, and offers. wsd_runner_run() does it by itself. Blocks for at most timeout_usec (0: 5 seconds). Jobs of a
 * connection before this one are lost: see wsd_runner_finish(). Returns 0, also if the connection stands, or as
 * wsd_client_open(). Returns -EINVAL if nothing is offered, or wsd refuses the name: a plugin has it, or it is none.
 * Returns -EAGAIN if the user has too many runners, -EOPNOTSUPP if wsd is older, -EBUSY while wsd_runner_run()
 * connects, and -ESHUTDOWN if the runner has left. Since 0.1. */
WSD_EXPORT int wsd_runner_connect(struct wsd_runner *runner, uint64_t timeout_usec);

/* Runs jobs on this thread and threads - 1 further ones, until the runner has left in order. One more thread looks
 * after the connection while jobs run. When the connection ends, it connects again; the pauses between two tries double
 * from 20 ms to 5 s. A job keeps its thread until its function returns, also when its connection has ended. This call
 * does not return before that, either. No exception may leave a function.
 *
 * Returns 0 after wsd_runner_leave(). Returns the error of wsd_runner_connect() if the first try fails or wsd refuses
 * the offer. Returns -EINVAL if threads is 0 or above WSD_RUNNER_THREADS_MAX or a function has no `run`. Returns -EIO
 * with words if init() has failed, and -EAGAIN if a thread cannot be started. Returns -EBUSY while another thread is in
 * it, and -ESHUTDOWN if the runner had left before. Since 0.1. */
WSD_EXPORT int wsd_runner_run(struct wsd_runner *runner, unsigned threads);

/* Waits for the next job, for at most timeout_usec (0: only looks; UINT64_MAX: without end). Returns 1, and the job,
 * which is to be finished. Returns 0 if none has come. Returns -ESHUTDOWN when the runner has left in order,
 * -ECONNRESET when the connection is over, and -ENOTCONN before there was one: wsd_runner_connect() makes one.
 *
 * For an event loop: watch wsd_runner_fd() for wsd_runner_events(), and take jobs with 0 until it returns 0. Do so, too,
 * after calls for a job, such as wsd_job_cancelled(). They read the connection, and then no event tells of what came.
 * While a job is in hand for longer than a second, call this or wsd_job_cancelled() now and then. They answer wsd, which
 * takes a runner that is silent for `executor-answer` (wsd.conf(5)) for dead. Since 0.1. */
WSD_EXPORT int wsd_runner_next(struct wsd_runner *runner, uint64_t timeout_usec, struct wsd_job **ret_job);

/* Runs the function of a job of wsd_runner_next(), as wsd_runner_run() does: it may fork and join (wsd/task.h). Returns
 * what it returns, for wsd_runner_finish(). Returns -EINVAL if it has no `run`, -ENOMEM, -ECHILD, or -EDEADLK within a
 * function that it runs. May be called by several threads at once, for different jobs. Since 0.1. */
WSD_EXPORT int wsd_runner_call(struct wsd_runner *runner, struct wsd_job *job);

/* Ends a job of wsd_runner_next() with the status that a function returns: 0, or 1 to WSD_STATUS_MAX. Any other value
 * becomes WSD_STATUS_MAX. Waits while wsd does not take its output. The job is gone afterwards. Returns 0, or
 * -ECONNRESET if its connection is over: wsd has decided what becomes of it. Since 0.1. */
WSD_EXPORT int wsd_runner_finish(struct wsd_runner *runner, struct wsd_job *job, int status);

/* Returns how many bytes of output can be written now without waiting, by wsd_job_write() and wsd_runner_finish(). It
 * is for an event loop, which must not wait for a submitter that does not read. 0: none. Look again when
 * wsd_runner_fd() has had an event. SIZE_MAX: nothing waits, since the job is to stop, its connection is over, or its
 * output goes into an arena. Since 0.1. */
WSD_EXPORT size_t wsd_runner_room(const struct wsd_job *job);

/* The same of a job that has not ended by itself where the runner had it run, such as on another machine. state:
 * WSD_JOB_TIMED_OUT, WSD_JOB_CRASHED or WSD_JOB_INTERRUPTED, which is then its end. The words are those of
 * wsd_job_fail(). With an older wsd it has failed with WSD_STATUS_MAX. Returns -EINVAL, and the job stays, for any other
 * state. Since 0.1. */
WSD_EXPORT int wsd_runner_finish_as(struct wsd_runner *runner, struct wsd_job *job, enum wsd_job_state state);

/* What a job does not say to plugins. Set size first. Fields are appended. Since 0.1. */
struct wsd_run_info {
    size_t size;
    uint32_t uid;     /* of the user that the job is of */
    uint32_t attempt; /* 1: the first one */
    int32_t priority;
    const char *key;         /* "": none, or wsd is older. Valid as long as the job */
    const char *traceparent; /* likewise; as wsd_job_traceparent() says */
};

/* Fills in what is known of a job of this runner. Of a larger structure than this library knows the rest stays, and
 * size becomes what was filled. Returns 0, or -EINVAL if size is not set. Since 0.1. */
WSD_EXPORT int wsd_runner_info(const struct wsd_job *job, struct wsd_run_info *ret_info);

/* The descriptor of the connection, and the poll(2) events to wait for. -1 and 0 if there is none. Since 0.1. */
WSD_EXPORT int wsd_runner_fd(const struct wsd_runner *runner);
WSD_EXPORT short wsd_runner_events(const struct wsd_runner *runner);

/* Leaves in order: no further job comes, and those that are here are finished. Then wsd_runner_run() returns 0, or
 * wsd_runner_next() -ESHUTDOWN. Later calls of these and of wsd_runner_connect() return -ESHUTDOWN: to come back, make
 * another runner. May be called by any thread and by a signal handler. In an event loop, call wsd_runner_next()
 * afterwards. Returns 0 or -ECHILD. Since 0.1. */
WSD_EXPORT int wsd_runner_leave(struct wsd_runner *runner);

/* Closes the connection and frees the runner. No other call on it may be under way. Jobs that were not finished are
 * given up, and are gone. NULL is allowed. Returns NULL. Since 0.1. */
WSD_EXPORT struct wsd_runner *wsd_runner_free(struct wsd_runner *runner);

/* Returns the text of the runner's last failure, on whichever thread that was: one line, valid until this thread calls
 * wsd_runner_error() again. NULL is allowed: wsd_runner_new() had no memory. Since 0.1. */
WSD_EXPORT const char *wsd_runner_error(const struct wsd_runner *runner);
/* Returns the exit code of wsctl(1) (64 to 130) for it. Since 0.1. */
WSD_EXPORT int wsd_runner_exit(const struct wsd_runner *runner);

#ifdef __cplusplus
}
#endif

#endif
