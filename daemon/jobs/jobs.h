/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h: what the rest of wsd asks of the jobs: submit, follow, select, cancel, schedule, gate, drain. Everything here
 * is [loop].
 *
 * It includes the headers of the folders below that its callers may see. Answers come through watches. A watch follows
 * one job and is embedded in the follower's object (the frontend's call). An accepted job ends in exactly one final
 * state, and each watch is told of it once.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/inherit.h"
#include "domains/arenas.h"
#include "domains/direct-lanes.h"
#include "domains/plugin-query.h"
#include "domains/questions.h"
#include "domains/runners.h"
#include "durable/dead.h"
#include "table/batches.h"
#include "table/function-stats.h"
#include "table/gates.h"
#include "table/interface.h"

/* Whether this process has what a wsd with these options, and its executors, need of the machine: limits, /proc,
 * /dev/null. Returns 0, or a negative errno with words that name the limit and the number that is needed. */
int jobs_needs(const struct jobs_options *options, char error[static INHERIT_ERROR]);
/* Becomes wsd-spawn for a wsd with these options, which connects to this socket. Returns only on failure: a negative
 * errno. Uses only those options that say how executors are started. */
int jobs_become_spawner(const struct jobs_options *options, int socket);
int jobs_new(struct jobs **ret_jobs, const struct jobs_options *options);
/* Ends every executor; jobs that are not final end as interrupted first. NULL is fine. Returns NULL. */
struct jobs *jobs_free(struct jobs *jobs);

/* Reads the store and resumes the unfinished jobs in it. Called before the first client. Returns 0, or a negative errno
 * where wsd cannot run; an unusable store is no error. */
int jobs_start(struct jobs *jobs);

/* Submits a job; accepted or refused is called now or later. Returns 0 or -ENOMEM. Where a job of this user has the
 * same key already, the watch follows that job. */
int jobs_submit(struct jobs *jobs, const struct job_request *request, struct watch *owner);
/* The same for many jobs that differ only in their arguments and input, from w->taken on. False: ops->goes_on() wants
 * no more of them now, and calling it again goes on. True: that was all. If w->taken is less than w->n then, the last
 * one was refused for a reason that holds for all later ones too. */
bool jobs_submit_array(struct jobs *jobs, struct job_request *r, struct array_watch *w);
/* Makes this item a job of its own, if it is not, with the watch that ops->item() returns. */
void jobs_array_split(struct array_watch *w, uint32_t item);
/* No more of its jobs will be submitted. Allowed where all are taken. */
void jobs_array_gone(struct array_watch *w);
/* Adds input, at most JOBS_INPUT_WINDOW ahead of input_taken. Returns 0, or -EPROTO where the client is out of turn. */
int jobs_input(struct watch *owner, const void *data, size_t size, bool last);
/* Here and below, uid 0 means the jobs of all users; the caller decides which user may pass that. Follows a job.
 * Returns -ENOENT where this user has no such job. Returns -EAGAIN if wsd is ending, and the next one may have the job.
 * Returns -EUSERS if it is not accepted yet, and too many follow it. */
int jobs_watch(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct watch *w);
/* Why this wsd does not know the jobs on disk. NULL: it knows them, or there can be none. */
const char *jobs_unreadable(const struct jobs *jobs);
/* Whether such a job has been accepted. A job that waits for its plugin can be followed, but is not accepted yet. */
bool jobs_accepted(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* Ends the watch: no more calls. If it is the owner's, and the job is not detached, the job is cancelled. */
void jobs_unwatch(struct watch *w);
/* How many jobs and batches the followed job runs after. */
uint32_t jobs_awaited(const struct watch *w);
void jobs_output_ready(struct watch *w);
/* Answers watch_ops.open. error: a positive errno. fd: -1, or a descriptor that stays the caller's. */
void jobs_opened(struct watch *w, uint32_t serial, int error, int fd);

int jobs_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid,
              void (*each)(const struct job_info *info, void *userdata), void *userdata);
/* --- selections: jobs by what they are, in bounded pieces --------------------------------------------------------- */

#define JOBS_STATES_OPEN (1u << JOB_HELD | 1u << JOB_DELAYED | 1u << JOB_QUEUED | 1u << JOB_RUNNING)
#define JOBS_SELECTED    (8u << 20) /* ids that the selections of one user may hold */

struct jobs_filter {
    uint32_t states; /* 1 << state, as job_told_state() has it; 0: any */
    bool by_uid;
    uint32_t uid;         /* only jobs of this user */
    const char *plugin;   /* the plugin's own name, or the submitted one without directory and .so; "": any */
    const char *function; /* "": any */
    uint64_t newer_usec;  /* submitted within this time before now; 0: any */
    uint64_t older_usec;  /* submitted longer ago than this; 0: any */
    uint32_t limit;       /* only the newest `limit` jobs; 0: all */
    bool dead;            /* only jobs that are out of retries */
    const uint8_t *batch; /* only jobs of the batch with this id; NULL: any */
};

struct selection;

enum jobs_selected {
    JOBS_SELECTED_ONE = 0,
    JOBS_SELECTED_LATER = 1, /* the looks are used up: continue in another turn */
    JOBS_SELECTED_END = 2,
};

/* Selects, for this user, among the jobs of the user `reach` (0: of all). Copies the filter. newest_first is for a
 * caller that ends the jobs, since an end may end newer ones; otherwise the oldest comes first. Returns 0 or
 * -ENOMEM. */
int jobs_select(struct jobs *jobs, uint32_t uid, uint32_t reach, const struct jobs_filter *filter, bool newest_first,
                struct selection **ret_selection);
/* Finds the next job; each look costs one of *looks. Returns an enum jobs_selected; -EDQUOT: the selections of this
 * user are too large together; or -ENOMEM. */
int jobs_select_next(struct selection *s, uint32_t *looks, uint8_t ret_id[16]);
/* Describes the job, if it still exists and still matches. */
void jobs_select_info(struct selection *s, const uint8_t id[16],
                      void (*each)(const struct job_info *info, void *userdata), void *userdata);
/* Cancels the job. True: this call did it. False: the job has ended, does not match now, or is being cancelled
 * already. */
bool jobs_select_cancel(struct selection *s, const uint8_t id[16]);
/* Ends the selection. Logs once what it cancelled of other users. NULL is fine. Returns NULL. */
struct selection *jobs_select_free(struct selection *s);

/* --- schedules: jobs that are submitted again and again (schedule.c) --- */

#define SCHEDULE_NAME_MAX 64u /* bytes, with NUL */

struct schedule;

struct schedule_request {
    const char *name, *calendar; /* calendar: in the syntax of calendar/calendar.h */
    bool persistent;             /* runs that fell due while no wsd ran are made up for by one run at the start */
    struct job_request job;      /* without input, key and delay */
};

struct schedule_info {
    const char *name, *calendar, *plugin, *function, *error; /* error: of the last run */
    uint32_t uid;
    bool persistent, configured, running;
    uint64_t next_usec, ran_usec; /* CLOCK_REALTIME; ran_usec 0: never run */
    uint64_t runs, skipped;       /* skipped: due while the previous run was not done */
    uint8_t id[16];               /* of the last run's job, if ran_usec is not 0 */
    uint32_t state, exit;         /* of the last run; state 0: it has not ended, or was refused with exit and error */
};

/* Embedded in the asker's object. */
struct schedule_query {
    struct schedule *schedule; /* NULL: answered */
    /* code 0: done. id: of the job that jobs_schedule_run() made */
    void (*answer)(struct schedule_query *q, int code, const char *text, const uint8_t *id);
};
/* Each calls q->answer, now or later, unless jobs_schedule_forget() comes first. The name is one of the user's own. */
void jobs_schedule_add(struct jobs *jobs, const struct schedule_request *r, struct schedule_query *q);
void jobs_schedule_remove(struct jobs *jobs, uint32_t uid, const char *name, struct schedule_query *q);
void jobs_schedule_run(struct jobs *jobs, uint32_t uid, const char *name, struct schedule_query *q);
void jobs_schedule_forget(struct schedule_query *q);
/* Lists the schedules of this user (root: of all), sorted by user and name. Returns 0 or -ENOMEM. */
int jobs_schedules(struct jobs *jobs, uint32_t uid, void (*each)(const struct schedule_info *info, void *userdata),
                   void *userdata);
/* Sets the schedules of the configuration; those that are not in the list are removed. */
void jobs_schedules_configure(struct jobs *jobs, const struct schedule_request *list, size_t n);
static inline bool jobs_schedule_is_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.@+");

    return n > 0 && n < SCHEDULE_NAME_MAX && !name[n] && *name != '-';
}

/* Cancels a job. Returns 0; -EALREADY: it had ended; -ENOENT. uid, by: as in jobs_batch_cancel(). What is durable is
 * cancelled when that is on disk: see jobs_watch_cancelled(). */
int jobs_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by);
/* Whether the end of this cancelled job is still to be on disk. If so, the watch follows it: done when it is, refused
 * where that cannot be written. NULL: only says so. With a watch, also false where too many follow the job. */
bool jobs_watch_cancelled(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct watch *w);
void jobs_cancel_watched(struct watch *w, uint32_t uid, uint32_t by); /* the same for the followed job */

/* --- gates: what may be handed over, and how much of it at once --------------------------------------------------- */

/* Pauses, resumes, drains or limits. The caller checks that the user is an administrator. Returns 0; -ENOENT: neither
 * paused nor limited; -ENOSPC: JOBS_GATES are; -EINVAL; -ENOMEM. */
int jobs_gate(struct jobs *jobs, const struct jobs_gate_request *request);
/* Calls each for plugin "", then for each gate. */
void jobs_gates(struct jobs *jobs, void (*each)(const struct jobs_gate_info *info, void *userdata), void *userdata);

/* Takes a bounded batch of completions from every executor. True: there may be more. */
bool jobs_poll(struct jobs *jobs);
/* Called before the loop sleeps. False: it must not sleep. */
bool jobs_asleep(struct jobs *jobs);
bool jobs_have_told(const struct jobs *jobs); /* each watch of an ended job has been told, and has the output */
void jobs_awake(struct jobs *jobs);

/* Refuses new jobs from now on. In the next turns durable jobs that have not begun leave, and stay in the store; others
 * that wait for their time end. */
void jobs_drain(struct jobs *jobs);
void jobs_interrupt_all(struct jobs *jobs);
void jobs_finish_executors(struct jobs *jobs); /* asks each executor to end; counters.n_executors is the number left */
uint64_t jobs_open(const struct jobs *jobs);   /* jobs not in a final state */
/* For display: how many jobs run on a worker, and how many other jobs are open. */
void jobs_load(const struct jobs *jobs, uint64_t *ret_running, uint64_t *ret_waiting);
void jobs_set_limits(struct jobs *jobs, const struct jobs_limits *limits);
/* Sets the limits of one user, of which only those with _per_user count. NULL: the general limits. Returns 0 or
 * -ENOMEM. */
int jobs_set_user_limits(struct jobs *jobs, uint32_t uid, const struct jobs_limits *limits);
/* Roughly the bytes that jobs and schedules take in wsd. Cheap. */
uint64_t jobs_weight(const struct jobs *jobs);
/* After a burst: shrinks tables, a bounded part a call. True: there is more to do. Freed memory goes to the
 * allocator. */
bool jobs_shrink(struct jobs *jobs);
void jobs_counters(struct jobs *jobs, struct jobs_counters *ret);
