/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h: the job table: admission, queueing, hand-over to executors, recovery, results. Everything here is [loop].
 *
 * Answers are told through watches: a watch is somebody's interest in one job, embedded in its object (the frontend's
 * call). A job that was accepted ends in exactly one final state, told once to each watch.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/code.h"
#include "base/inherit.h"
#include "base/list.h"

struct jobs;
struct job;
struct directory;

/* The states of <wsd/client.h>, and NEW before acceptance. */
enum job_state {
    JOB_NEW = 0,
    JOB_HELD = 1,
    JOB_DELAYED = 2,
    JOB_QUEUED = 3,
    JOB_RUNNING = 4,
    JOB_SUCCEEDED = 5,
    JOB_FAILED = 6,
    JOB_CANCELLED = 7,
    JOB_TIMED_OUT = 8,
    JOB_CRASHED = 9,
    JOB_INTERRUPTED = 10,
};

/* Every limit of the job table, with its default; the configuration may change them. */
struct jobs_limits {
    uint64_t jobs; /* not final, all users */
    uint64_t jobs_per_user;
    uint64_t rate, rate_per_user;       /* jobs submitted in a second; 0: any number */
    uint64_t rate_burst;                /* so many at once after a pause; 0: as many as in a second */
    uint64_t running, running_per_user; /* handed over at once; 0: any number */
    uint64_t bytes, bytes_per_user;     /* arguments, inputs, results kept or not yet read */
    uint64_t input;                     /* bytes of one job's whole input */
    uint64_t result;                    /* bytes of output kept for a detached job */
    uint64_t keep_usec;                 /* how long a detached job's end is kept */
    uint64_t grace_usec;                /* between the cancel flag and the end of the executor */
    uint64_t idle_usec;                 /* an executor without work is ended after this */
    uint64_t load_usec;                 /* a plugin's constructors and init must be done by then */
    uint64_t hang_usec;                 /* an executor that does not answer, or takes no job, is replaced after this */
    uint64_t recycle_jobs;              /* an executor makes room for a fresh one after so many; 0: never */
    uint64_t recycle_growth;            /* and after it has grown by so many bytes; 0: never */
    uint64_t max_run_usec;              /* of a job; 0: any. The configuration may say otherwise for a plugin */
    uint64_t max_wait_usec;             /* of a job in the queue; 0: any */
    uint64_t quarantine_after;          /* crashes of a function until it is refused for a while */
    uint64_t quarantine_max_usec;       /* the longest pause */
    uint64_t schedules_per_user;
    uint64_t ageing_usec;     /* what has waited so long has turns beside higher priorities */
    uint64_t store_keep_usec; /* how long the end of a durable job is kept */
    uint64_t store_bytes;     /* of all durable jobs, on disk: then his oldest ends go, then none is taken */
};

#define JOBS_LIMITS_DEFAULT                                                                                            \
    {                                                                                                                  \
        .jobs = 10000000, .jobs_per_user = 1000000, .bytes = 16ull << 30, .bytes_per_user = 4ull << 30,                \
        .input = 1ull << 30, .result = 64ull << 20, .keep_usec = 300ull * 1000000, .grace_usec = 2000000,              \
        .idle_usec = 300ull * 1000000, .load_usec = 10000000, .hang_usec = 30000000, .quarantine_after = 3,            \
        .quarantine_max_usec = 300ull * 1000000, .schedules_per_user = 100, .ageing_usec = 10000000,                   \
        .store_keep_usec = 7ull * 86400 * 1000000, .store_bytes = 1ull << 30                                           \
    }

#define JOBS_ATTEMPTS      3u             /* of an idempotent job, when executors die under it */
#define JOBS_WORKERS_MAX   1024u          /* an executor */
#define JOBS_STACK_MIN     (256ull << 10) /* bytes of a worker's stack */
#define JOBS_STACK_MAX     (1ull << 30)
#define JOBS_TLS_DEFAULT   (UINT64_C(64) << 10)
#define JOBS_TLS_MAX       (UINT64_C(256) << 10)
#define JOBS_STACK_DEFAULT (8ull << 20)
#define JOBS_PLUGINS       2048u          /* a domain; at most WORK_PLUGINS of the executor */
#define JOBS_TAGS          3u             /* a job */
#define JOBS_GATES         1024u          /* functions, plugins and tags that are paused or have a limit */
#define JOBS_RELOADS       4u             /* at the same time, a domain: each has an executor of its own for a while */
#define JOBS_INPUT_WINDOW  (256u * 1024)  /* input that a client may send ahead, a call */
#define JOBS_OUTPUT_WINDOW (1024u * 1024) /* output gathered here, a job, before it waits in the executor's memory */

/* What holds for one trust domain, and not for another. */
struct jobs_domain {
    const char *name;     /* NULL: that of all who are in no other */
    const uint32_t *uids; /* its users; several share one executor */
    uint32_t n_uids;
    uint32_t workers;    /* in its executors; 0: as in all others */
    uint64_t memory;     /* that each of them may have, in bytes; 0: without limit */
    bool own_memory;     /* it says so itself, and not [limits] for all */
    bool plugin_memory;  /* the section of the plugin that the executor is for says so */
    uint64_t tasks;      /* processes and threads of each beside its workers; 0: without limit */
    uint32_t cpu_weight; /* of each beside others; 0: 100 */
};

/* Under whose uid executors run. */
enum jobs_user_ids {
    JOBS_USER_IDS_AUTO = 0, /* the user's own, where wsd has the right; else wsd's */
    JOBS_USER_IDS_YES,      /* the user's own, or none runs */
    JOBS_USER_IDS_NO,       /* wsd's */
};

/* Whether each executor has a cgroup of its own. */
enum jobs_cgroups {
    JOBS_CGROUPS_AUTO = 0, /* where a service manager says that wsd may make some */
    JOBS_CGROUPS_YES,      /* anyway, or wsd does not start */
    JOBS_CGROUPS_NO,
};
#define JOBS_CPU_WEIGHT_MAX 10000u

#define JOBS_FIRST_USER_ID 1000u /* users of the system, and their groups, are below it */

struct jobs_options {
    struct event_base *base;
    struct jobs_limits limits;
    int executor_fd; /* wsd-executor, open */
    uint32_t workers;
    bool pin; /* each worker on a CPU of its own */
    /* bytes of each thread of an executor for thread-local variables of plugins, at most JOBS_TLS_MAX */
    uint64_t static_tls;
    uint64_t stack_size;     /* of a worker, JOBS_STACK_MIN to JOBS_STACK_MAX */
    const char *plugin_dirs; /* colon-separated, lives as long as the jobs */
    bool one_domain;         /* all users in one trust domain */
    uint32_t own_uid;        /* of wsd and so of the executors */
    bool user_daemon;        /* a user's own wsd: plugins by path */
    int log_level;
    const char *state_dir; /* NULL: none; lives as long as the jobs */
    const char *sandbox;   /* for executors, as ring/control.h says, without memory; lives as long as the jobs */
    bool leaves_core;      /* an executor that crashes */
    const struct jobs_domain *domains; /* the first is that of all others; live as long as the jobs */
    uint32_t n_domains;                /* at least 1 */
    enum jobs_user_ids user_ids;
    uint32_t first_user_id; /* who is below it runs under wsd's uid, or not at all */
    const char *spawner;    /* wsd-spawn, or the socket of wsd-spawn.service */
    enum jobs_cgroups cgroups;
    /* Whether the configuration turns this plugin on; is_opt_in: the function asks to be off by default. */
    bool (*plugin_enabled)(const char *plugin, bool is_opt_in, void *context);
    /* Whether the configuration says who may use it: watch_ops.may_use knows. NULL: whoever may submit. */
    bool (*plugin_restricted)(const char *plugin, void *context);
    /* Whether the configuration gives it an executor of its own; NULL: it never does. */
    bool (*plugin_own)(const char *plugin, void *context);
    /* What its own executor has other than those of its user's domain. NULL: nothing. */
    void (*plugin_share)(const char *plugin, struct jobs_domain *settings, void *context);
    /* The longest time that a job of it may run, 0: any; *ret_of: NULL, or whose section of the configuration says so.
     * NULL: as in limits. */
    uint64_t (*plugin_max_run)(const char *plugin, const char **ret_of, void *context);
    void *context;
};

struct jobs_counters {
    uint64_t submitted, bundled, refused, succeeded, failed, cancelled, timed_out, crashed, interrupted, rerun;
    uint64_t executors_started, executors_died, liars;
    uint64_t n_open; /* now, not final */
    uint64_t n_queued, n_handed, n_kept, n_executors;
    uint64_t n_bytes;          /* charged to all users */
    uint64_t n_traces;         /* under way */
    uint64_t retried;          /* tries after a bad end */
    uint64_t n_stored, n_dead; /* durable jobs that have ended, and those of them that are out of retries */
    uint64_t store_bytes;      /* of all durable jobs, on disk */
    uint64_t n_lanes;          /* direct lanes, open */
    uint64_t direct_calls, direct_cpu_usec, direct_crashed, direct_interrupted, direct_timed_out;
    uint64_t direct_running; /* now */
    uint64_t n_unread;       /* watches of ended jobs that have not had all of the output */
};

/* What is told of a job; texts live for the time of the call. */
struct job_info {
    uint8_t id[16];
    const char *plugin, *function, *error, *status, *worker, *backtrace, *key;
    enum job_state state;
    int exit;
    uint32_t attempts, uid;
    uint64_t queued_usec, run_usec, cpu_usec, submitted_usec, done, total;
    bool durable, dead;
    uint32_t retries;
    uint64_t due_usec;    /* DELAYED: so long yet */
    uint32_t waits_for;   /* HELD: jobs that have not ended */
    const char *tags;     /* with commas between */
    const uint8_t *batch; /* id of the one that it belongs to; NULL: none */
    uint64_t placed;      /* bytes of its output, in its part of an arena */
};

struct batch_watch;
struct watch_ops;

/* Somebody's interest in a job. Zeroed, with ops set, before it is handed in. */
struct watch {
    const struct watch_ops *ops;
    struct job *job;            /* NULL: none (yet, or any more) */
    struct watch *next, **link; /* of the job's; what points to this one */
    struct list progress;
    uint64_t offset; /* of the next output byte that it wants */
    bool owner;      /* its end cancels a job that is not detached */
    bool wants_progress;
    bool late;        /* the job has ended, and it has not had all of the output */
    const void *rest; /* while done is told: the last bytes of the output, which were not told before */
    size_t rest_size;
    uint64_t last_done;
};

/* Upward calls. accepted or refused comes first, once, then the others; done is the last, after which the watch is no
 * longer the jobs'. refused comes in the place of done where nothing can be told of the end: a durable job that goes on
 * after a restart, or whose output cannot be read. None may call back into jobs for this watch but from output's return
 * on. */
struct watch_ops {
    void (*accepted)(struct watch *w, const uint8_t id[16]);
    /* retry_usec: worth another try after this; 0: not known */
    void (*refused)(struct watch *w, int code, const char *text, uint64_t retry_usec);
    /* wsd ends, and the job, a durable one, goes on in the next: true where the watcher asks that one for it; the watch
     * is no longer the jobs'. Else, or where this is NULL, refused is called. */
    bool (*deferred)(struct watch *w, const uint8_t id[16]);
    /* Takes as much of the output as it can now; returns how much. When it can take more: jobs_output_ready(). */
    size_t (*output)(struct watch *w, const void *data, size_t size);
    /* Whether it takes so many last bytes together with done, as w->rest. */
    bool (*takes_rest)(struct watch *w, size_t size);
    /* The job took this much input: the client may send as much again. NULL: it sends all at once. */
    void (*input_taken)(struct watch *w, size_t size);
    /* NULL: it does not want to know. */
    void (*message)(struct watch *w, int level, const char *text);
    /* NULL: it never sets wants_progress. */
    void (*progress)(struct watch *w, uint64_t done, uint64_t total);
    /* One of the submitter's files is wanted; answered by jobs_opened(). 0, or a negative errno where it cannot be.
     * NULL: it has none that could be opened (-ENOTCONN, as where it has gone). */
    int (*open)(struct watch *w, uint32_t serial, const char *path);
    /* Whether whoever watches may use a plugin that is restricted; asked of the owner, once, before accepted. */
    bool (*may_use)(struct watch *w, const char *plugin);
    void (*done)(struct watch *w, const struct job_info *info);
};

/* Input that lies in a file. */
struct job_file {
    int *fd; /* taken, where the job has it: then -1 */
    uint64_t offset, size;
};

struct job_part {
    uint64_t at, size; /* size 0: none */
};

/* Input and output that lie in an arena. */
struct job_parts {
    struct arena *arena;
    struct job_part input, output;
};

struct job_request {
    const char *plugin, *function; /* function "": the main one */
    const char *args;              /* each with its NUL */
    size_t args_size;
    uint32_t argc;
    const void *input;
    size_t input_size;
    uint64_t timeout_usec;
    int priority;
    bool detached, progress, more_input;
    bool durable;
    const char *key;                  /* NULL or "": none */
    uint32_t retries, retry_on;       /* retry_on: 1 << state, 0: the default */
    uint64_t retry_usec;              /* the first pause, 0: the default */
    uint64_t delay_usec;              /* not before so long, 0: at once */
    uint64_t at_usec;                 /* not before (CLOCK_REALTIME), 0: at once */
    uint64_t queue_usec;              /* the longest time in the queue, 0: any */
    const uint8_t *after, *after_any; /* ids of jobs to run after, 16 bytes each: on success, on any end */
    uint32_t n_after, n_after_any;
    const char *tags;              /* with commas between; NULL or "": none */
    const struct job_file *file;   /* the input; NULL: it is what `input` says */
    const struct job_parts *parts; /* NULL: none */
    struct batch_watch *batch;     /* that it belongs to, which is its owner's; NULL: none */
    const uint8_t *id;             /* NULL: a new one */
    struct directory *directory;   /* NULL: none; a reference is taken */
    uint32_t uid;
};

/* Interest in the jobs of an array, embedded in the submitter's object; ops set. It stays until each of them has ended,
 * or jobs_array_split() and jobs_unwatch() of each. */
struct array_watch {
    const struct array_watch_ops *ops;
    struct list bundles; /* the jobs' */
};

/* How a job ended of which there is nothing to tell but this. */
struct array_end {
    uint64_t queued_usec, run_usec, cpu_usec;
    const void *output;
    size_t size;
};

/* Upward calls. Most of an array's jobs may need no watch of their own; these are told by accepted, then ended. */
struct array_watch_ops {
    /* Puts the arguments and the input of the i-th into the request; each once, in order. */
    void (*next)(struct array_watch *w, struct job_request *r, uint32_t i);
    /* The watch of one: before it is submitted as a job of its own, or, where it was accepted before, when it becomes
     * one. NULL: no memory, and nobody waits for any of them any more. */
    struct watch *(*item)(struct array_watch *w, uint32_t i, bool accepted);
    void (*accepted)(struct array_watch *w, uint32_t first, uint32_t n);
    /* Whether it takes ends with so many bytes of output together, now. */
    bool (*takes)(struct array_watch *w, uint64_t size);
    /* n of them in a row, alike in what info says, and each by itself; w may be gone after it. */
    void (*ended)(struct array_watch *w, uint32_t first, uint32_t n, const struct job_info *info,
                  const struct array_end ends[]);
};

/* Whether this process has what a wsd with these options and its executors need of the machine: limits, /proc,
 * /dev/null. Returns 0, or a negative errno with the words, which name the limit and the number that is wanted. */
int jobs_needs(const struct jobs_options *options, char error[static INHERIT_ERROR]);
/* Becomes wsd-spawn for a wsd with these options, which connects to this socket. Returns only where that cannot be: a
 * negative errno. Of the options, what executors are started with and how is looked at. */
int jobs_become_spawner(const struct jobs_options *options, int socket);
int jobs_new(struct jobs **ret_jobs, const struct jobs_options *options);
/* Ends every executor; jobs that are not final end as interrupted first. NULL is fine; returns NULL. */
struct jobs *jobs_free(struct jobs *jobs);

/* Reads the store, and has what is not done go on. Before the first client. 0, or a negative errno where wsd cannot
 * run; a store that cannot be used is no such thing. */
int jobs_start(struct jobs *jobs);

/* A job. accepted or refused is called now or later; 0 or -ENOMEM. One with a key that this user's job has already is
 * that job: the watch follows it. */
int jobs_submit(struct jobs *jobs, const struct job_request *request, struct watch *owner);
/* The same for many jobs that differ in their arguments and input only. *ret_id is that of the first; those of the
 * others count up in the last 8 bytes, little endian. Returns how many were accepted or refused; where that is less
 * than n, the last of them was refused for what holds for all behind it as well. */
uint32_t jobs_submit_array(struct jobs *jobs, struct job_request *r, uint32_t n, uint8_t ret_id[16],
                           struct array_watch *w);
/* Has this one of them (UINT32_MAX: each), which may have no watch of its own yet, as a job with the watch that
 * ops->item() gives. */
void jobs_array_split(struct array_watch *w, uint32_t item);
/* Memory for inputs and outputs of this user's jobs. 0: *ret_arena is set, and the descriptor taken, or *ret_refusal
 * with a code, and where that is known after how long another try is worth while; or -ENOMEM. jobs_arena_drop(): no
 * more jobs; those that use it go on. NULL is fine; returns NULL. */
int jobs_arena_new(struct jobs *jobs, uint32_t uid, int *fd, struct arena **ret_arena, int *ret_code,
                   const char **ret_refusal, uint64_t *ret_retry_usec);
struct arena *jobs_arena_drop(struct arena *arena);
/* More input; at most JOBS_INPUT_WINDOW ahead of input_taken. 0, or -EPROTO where the client is out of turn. */
int jobs_input(struct watch *owner, const void *data, size_t size, bool last);
/* Here and below, uid 0 means the jobs of all users: who gets that is the caller's to say.
 * Follows a job. -ENOENT where this user has no such job; -EAGAIN where wsd is ending, and the next one may
 * have it. */
int jobs_watch(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct watch *w);
/* Why the jobs on disk are not known to this wsd. NULL: they are, or there can be none. */
const char *jobs_unreadable(const struct jobs *jobs);
/* Whether such a job has been accepted: one that waits for its plugin can be followed, but has not been. */
bool jobs_accepted(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* The watcher goes: no more calls. An owner's job that is not detached is cancelled. */
void jobs_unwatch(struct watch *w);
/* How many jobs and batches the job that is followed runs after. */
uint32_t jobs_awaited(const struct watch *w);
void jobs_output_ready(struct watch *w);
/* A file that was asked for; fd is -1 or stays the caller's. error: positive errno. */
void jobs_opened(struct watch *w, uint32_t serial, int error, int fd);

int jobs_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid,
              void (*each)(const struct job_info *info, void *userdata), void *userdata);
/* --- selections: jobs by what they are, in bounded pieces --------------------------------------------------------- */

#define JOBS_STATES_OPEN (1u << JOB_HELD | 1u << JOB_DELAYED | 1u << JOB_QUEUED | 1u << JOB_RUNNING)
#define JOBS_SELECTED    (8u << 20) /* ids that the selections of one user may hold */

struct jobs_filter {
    uint32_t states; /* 1 << state, as it is told; 0: any */
    bool by_uid;
    uint32_t uid;         /* whose */
    const char *plugin;   /* its own name, or as submitted without directory and .so; "": any */
    const char *function; /* "": any */
    uint64_t newer_usec;  /* submitted within that time; 0: any */
    uint64_t older_usec;  /* submitted before that time; 0: any */
    uint32_t limit;       /* only the newest so many; 0: all */
    bool dead;            /* only those that are out of retries */
    const uint8_t *batch; /* only those of the one with this id; NULL: any */
};

struct selection;

enum jobs_selected {
    JOBS_SELECTED_ONE = 0,
    JOBS_SELECTED_LATER = 1, /* the looks are used up: go on in another turn */
    JOBS_SELECTED_END = 2,
};

/* For this user, among the jobs of the user `reach`; 0: of all. The filter is copied. newest_first: for what ends them,
 * since an end may end newer ones; else the oldest comes first. 0 or -ENOMEM. */
int jobs_select(struct jobs *jobs, uint32_t uid, uint32_t reach, const struct jobs_filter *filter, bool newest_first,
                struct selection **ret_selection);
/* The next job; each look costs one of *looks. An enum jobs_selected; -EDQUOT: the selections of this user are too
 * large together; -ENOMEM. */
int jobs_select_next(struct selection *s, uint32_t *looks, uint8_t ret_id[16]);
/* What is known of it, where it is still there and still matches. */
void jobs_select_info(struct selection *s, const uint8_t id[16],
                      void (*each)(const struct job_info *info, void *userdata), void *userdata);
/* True: this order is what cancels it. False: it has ended, matches no more, or is being cancelled by another order. */
bool jobs_select_cancel(struct selection *s, const uint8_t id[16]);
/* NULL is fine; returns NULL. Says once in the log what was cancelled of other users. */
struct selection *jobs_select_free(struct selection *s);

/* --- batches: many jobs as a unit (batch.c) ----------------------------------------------------------------------- */

#define JOBS_BATCHES_PER_USER 1024u /* open, or ended and kept */

struct batch_info {
    uint8_t id[16];
    uint32_t uid;
    bool closed, ended, stopped; /* stopped: what was not begun ends as cancelled */
    bool cancelled;              /* stopped, all of it */
    int exit;                    /* of the first, in their order, that has failed so far */
    uint64_t total, queued, running, done, failed;
    uint64_t submitted_usec; /* CLOCK_REALTIME */
};

/* Somebody's interest in a batch, embedded in the frontend's call. */
struct batch_watch {
    struct list link, progress;
    struct batch *batch; /* NULL: none any more */
    bool owner;
    bool cancel_closes; /* owner: a cancel closes it, too */
    uint64_t told;      /* how many had been accepted, and how many of them ended, together */
    /* info->ended: the last, and w is not the jobs' any more */
    void (*tell)(struct batch_watch *w, const struct batch_info *info);
};

/* The owner adds jobs (job_request.batch) until it closes it, or goes. The failure of a job stops those behind it,
 * unless keep_going. One that is detached is kept as long as a detached job; another is stopped when its owner goes. 0,
 * -ENOMEM, or -EDQUOT: too many of this user. */
int jobs_batch_open(struct jobs *jobs, uint32_t uid, bool keep_going, bool detached, bool progress,
                    struct batch_watch *owner);
void jobs_batch_close(struct batch_watch *owner);
bool jobs_batch_is_open(const struct batch_watch *owner);      /* jobs may be added */
bool jobs_batch_is_cancelled(const struct batch_watch *owner); /* what is added is refused */
bool jobs_batch_is_detached(const struct batch_watch *owner);
/* 0 or -ENOENT */
int jobs_batch_watch(struct jobs *jobs, const uint8_t id[16], uint32_t uid, bool progress, struct batch_watch *w);
void jobs_batch_unwatch(struct batch_watch *w); /* also where it has none */
void jobs_batch_look(const struct batch_watch *w, struct batch_info *ret);
int jobs_batch_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct batch_info *ret); /* 0 or -ENOENT */
/* Everything in it that has not ended is cancelled, and nothing is added any more. uid: with whose rights; by: who it
 * is, for the log. 0; -EALREADY: it had ended; -ENOENT. */
int jobs_batch_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by);
void jobs_batch_cancel_watched(struct batch_watch *w, uint32_t uid, uint32_t by);

/* A job that is out of retries is to be queued again, or forgotten; embedded in the asker's object. */
struct dead_query {
    struct disk_request *request;                                     /* NULL: answered */
    void (*answer)(struct dead_query *q, int code, const char *text); /* 0: done; else an exit code and words */
};
/* 0: answer will be called; -ENOENT: there is no such one; -EBUSY: something else is under way with it; -EAGAIN: wsd is
 * draining; -ENOMEM. uid, by: as of jobs_batch_cancel(). */
int jobs_dead(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by, bool requeue, struct dead_query *q);
void jobs_dead_forget(struct dead_query *q);

/* --- schedules: jobs that are submitted again and again (schedule.c) --- */

#define SCHEDULE_NAME_MAX 64u /* bytes, with NUL */

struct schedule;

struct schedule_request {
    const char *name, *calendar; /* calendar: as base/calendar.h has it */
    bool persistent;             /* a run that was missed while there was no wsd is made up for by one at the start */
    struct job_request job;      /* without input, key and delay */
};

struct schedule_info {
    const char *name, *calendar, *plugin, *function, *error; /* error: of the last run */
    uint32_t uid;
    bool persistent, configured, running;
    uint64_t next_usec, ran_usec; /* CLOCK_REALTIME; ran_usec 0: it has not run */
    uint64_t runs, skipped;       /* skipped: due while the run before was not done */
    uint8_t id[16];               /* of the last run's job, where ran_usec */
    uint32_t state, exit;         /* of it; state 0: it has not ended, or was refused with exit and error */
};

/* Embedded in the asker's object. */
struct schedule_query {
    struct schedule *schedule; /* NULL: answered */
    /* 0: done; id: of run's job */
    void (*answer)(struct schedule_query *q, int code, const char *text, const uint8_t *id);
};
/* Each is answered, now or later; forgotten by jobs_schedule_forget(). The name is the user's own. */
void jobs_schedule_add(struct jobs *jobs, const struct schedule_request *r, struct schedule_query *q);
void jobs_schedule_remove(struct jobs *jobs, uint32_t uid, const char *name, struct schedule_query *q);
void jobs_schedule_run(struct jobs *jobs, uint32_t uid, const char *name, struct schedule_query *q);
void jobs_schedule_forget(struct schedule_query *q);
/* Those of this user (root: of all), by user and name. 0 or -ENOMEM. */
int jobs_schedules(struct jobs *jobs, uint32_t uid, void (*each)(const struct schedule_info *info, void *userdata),
                   void *userdata);
/* Those of the configuration: what it no longer has goes. */
void jobs_schedules_configure(struct jobs *jobs, const struct schedule_request *list, size_t n);
static inline bool jobs_schedule_is_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.@+");

    return n > 0 && n < SCHEDULE_NAME_MAX && !name[n] && *name != '-';
}

/* Cancels: 0; -EALREADY: it had ended; -ENOENT. uid, by: as of jobs_batch_cancel(). */
int jobs_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by);
void jobs_cancel_watched(struct watch *w, uint32_t uid, uint32_t by); /* the same of the job that is followed */

/* A question about plugins, embedded in the asker's object; answered by calls, the last with info NULL. */
struct plugin_info {
    const char *name, *version, *help, *path, *error;
    const struct plugin_function_info {
        const char *name, *help;
        uint64_t flags;
        const char *why; /* of the last crash; NULL: none of late */
        uint32_t crashes;
        bool in_quarantine, on_probe;
        uint64_t quarantine_usec; /* left */
    } * functions;
    size_t n_functions;
    uint32_t apart;    /* has an executor of its own: 1 configured so, 2 because it has crashed; 0: no */
    const char *build; /* id of the file, "" */
    enum plugin_reloaded {
        RELOADED_NOT = 0, /* not asked for; or it failed, and there is nothing else: error */
        RELOADED_FIRST,   /* nothing was loaded before */
        RELOADED_SAME,    /* the file has not changed */
        RELOADED_CHANGED,
        RELOADED_KEPT, /* the new file cannot be loaded (error): the old one stays in use */
    } reloaded;
    const char *old_version, *old_build; /* CHANGED, SAME, KEPT */
};
struct plugin_query {
    struct list link; /* in no list: answered */
    void (*answer)(struct plugin_query *q, const struct plugin_info *info, int error);
};
/* 0; -EACCES (a path, where only names are allowed), -ENAMETOOLONG, -ENOMEM: then there is no answer. directory: where
 * a relative path begins; NULL: not known. */
int jobs_plugin(struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                struct plugin_query *q);
void jobs_plugin_forget(struct plugin_query *q);
/* Loads the plugin's file now, for those whose executor is `owner` (jobs_plugin_users): where it can be loaded, jobs
 * submitted from the answer on get it. As jobs_plugin(); -EBUSY: another reload of it is under way, or
 * JOBS_RELOADS others are. */
int jobs_plugin_reload(struct jobs *jobs, uint32_t uid, uint64_t owner, const char *plugin,
                       const struct directory *directory, struct plugin_query *q);
/* Whose executors a reload asked for by uid means: those that have the plugin, of his own, or of all users; his own
 * where nobody has it. The caller frees. As jobs_plugin(). */
int jobs_plugin_users(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const struct directory *directory,
                      uint64_t **ret_owners, size_t *ret_n);
uint32_t jobs_owner_uid(const struct jobs *jobs, uint64_t owner); /* UINT32_MAX: several users share that executor */
/* Lets a function ("": all of the plugin) out of quarantine, for this user, or for all. 0;
 * -ENOENT: nothing is known against it; -ENAMETOOLONG, -ENOMEM. */
int jobs_plugin_release(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const char *function,
                        const struct directory *directory);
/* The names of the plugins in the plugin directories, sorted, one behind the other, each with its NUL. The caller
 * frees. */
int jobs_plugin_names(struct jobs *jobs, char **ret_names, size_t *ret_size);

/* --- gates: what may be handed over, and how much of it at once --------------------------------------------------- */

enum jobs_gate_action {
    JOBS_GATE_PAUSE = 1,  /* jobs are accepted and wait; those that run go on */
    JOBS_GATE_RESUME = 2, /* ends that; without a plugin also the drain */
    JOBS_GATE_DRAIN = 3,  /* no new jobs; what is there runs. Without a plugin only */
    JOBS_GATE_LIMIT = 4,  /* at most `limit` at once, of all users; 0: any number */
};

#define JOBS_BY_CONFIGURATION UINT32_MAX /* instead of a uid */

struct jobs_gate_request {
    enum jobs_gate_action action;
    uint32_t uid;                  /* for the log */
    const char *plugin, *function; /* plugin "": everything; function "": all of the plugin */
    const char *tag;               /* instead of them; "": none */
    uint32_t limit;
};

struct jobs_gate_info {
    const char *plugin, *function, *tag;
    bool paused, drained;
    uint32_t limit;
    uint64_t running, waiting; /* handed over; of plugin "": all that are open and are not */
};

/* For administrators, which the caller sees to. 0; -ENOENT: neither paused nor limited; -ENOSPC: JOBS_GATES are;
 * -EINVAL; -ENOMEM. */
int jobs_gate(struct jobs *jobs, const struct jobs_gate_request *request);
/* First plugin "", then each gate. */
void jobs_gates(struct jobs *jobs, void (*each)(const struct jobs_gate_info *info, void *userdata), void *userdata);

/* --- questions to executors ------------------------------------------------------------------------------------- */

#define JOBS_ASK_USEC 10000000u /* an executor that has not answered by then is passed over */
#define JOBS_ASKS     64u       /* not answered yet, an executor */

enum jobs_ask {
    JOBS_WORKERS = 1, /* the counters of each worker */
    /* argument: so many from now on, in new executors too. For administrators, which the caller sees to */
    JOBS_SET_WORKERS = 2,
    JOBS_TRACE_START = 3, /* of the user's own executor, present and to come; uid 0: of all. q->trace */
    JOBS_TRACE_STOP = 4,  /* ends what this user has started, and gives it */
};

extern const char *const jobs_counter_names[]; /* of a worker, in the order of worker_info.counters */
extern const size_t jobs_n_counters;

struct worker_info {
    uint32_t worker;
    uint32_t kind; /* enum control_worker_kind */
    uint32_t cpu;  /* plus 1; 0: not pinned */
    const uint64_t *counters;
};

/* The text of a trace, as an executor wrote it: nothing in it is to be believed. */
struct trace_report;
/* Reads at most size bytes from offset; 0 at the end. */
size_t trace_report_read(const struct trace_report *r, uint64_t offset, void *data, size_t size);
struct trace_report *trace_report_free(struct trace_report *r);

/* What one executor answered; lives for the time of the call, but for report. */
struct executor_answer {
    uint32_t executor;
    uint32_t uid; /* of the user that it works for; UINT32_MAX: of all */
    int error;    /* 0 or a positive errno: ETIMEDOUT, ESRCH (it ended), EBADMSG (nonsense), or its own */
    uint32_t workers;
    uint64_t lost;               /* events of a trace that were overwritten */
    struct trace_report *report; /* NULL, or the receiver's to free */
};

/* A question, embedded in the asker's object, zeroed but for the calls. */
struct executor_question {
    struct list parts;
    struct event *timer;
    bool asking;    /* done has not been called */
    uint32_t trace; /* TRACE_START: its number, for jobs_trace_drop() */
    void (*worker)(struct executor_question *q, uint32_t executor, const struct worker_info *info); /* WORKERS */
    void (*answer)(struct executor_question *q, const struct executor_answer *a); /* behind its workers */
    void (*done)(struct executor_question *q); /* the last call, perhaps from jobs_ask() itself */
};

/* 0: done will be called; -EACCES; -EBUSY (somebody's trace is under way, or not read yet); -ENOENT (no trace of this
 * user's); -EINVAL; -ENOMEM. */
int jobs_ask(struct jobs *jobs, uint32_t uid, enum jobs_ask what, uint32_t argument, struct executor_question *q);
/* The asker goes: no more calls. */
void jobs_ask_forget(struct executor_question *q);
/* This trace is ended, where it still is under way, and nobody wants it. */
void jobs_trace_drop(struct jobs *jobs, uint32_t number);
/* By configuration: as SET_WORKERS, without an answer. */
void jobs_set_workers(struct jobs *jobs, uint32_t workers);

/* --- direct lanes ------------------------------------------------------------------------------------------------ */

struct direct;

/* Who has one, embedded in his object; zeroed, with ops set, before it is handed in. */
struct lane_user {
    const struct lane_ops *ops;
    struct direct *lane; /* NULL: none */
};

struct lane_ops {
    /* It is there; the descriptors are to be sent to the client, and live for the time of the call. */
    void (*opened)(struct lane_user *u, int memory_fd, int grant_fd);
    bool (*may_use)(struct lane_user *u, const char *plugin); /* as watch_ops has it */
    /* There is none, or no more: the last call. code 0: its executor is gone; there will be another. */
    void (*gone)(struct lane_user *u, int code, const char *text);
};

/* A question for the number of a function, embedded likewise. */
struct lane_bind {
    struct plugin_query query; /* private, as is all but answer, number and idempotent */
    struct list link;
    struct lane_user *user;
    char *request, function[64];
    bool told; /* the executor was */
    uint32_t number;
    bool idempotent;
    void (*answer)(struct lane_bind *b, int code, const char *text); /* code 0: number is set */
};

/* Whether this kernel can do it. */
bool jobs_lanes_available(void);
/* NULL: opened or gone is called later; or why not, and nothing is. */
const char *jobs_lane_open(struct jobs *jobs, uint32_t uid, struct directory *directory, struct lane_user *u);
/* 0: answer is called, now or later. -EINVAL (no open lane, a name that is too long), -EACCES, -ENAMETOOLONG,
 * -ENOMEM. */
int jobs_lane_bind(struct lane_user *u, const char *plugin, const char *function, struct lane_bind *b);
void jobs_lane_forget(struct lane_bind *b); /* the asker goes */
/* The client says that it has been waiting for long. */
void jobs_lane_waits(struct lane_user *u);
/* Calls that run are cancelled; no more calls of ops. */
void jobs_lane_close(struct lane_user *u);

/* Completions of every executor, a bounded batch: true where there may be more. */
bool jobs_poll(struct jobs *jobs);
/* Before the loop sleeps: false where it must not. */
bool jobs_asleep(struct jobs *jobs);
bool jobs_have_told(const struct jobs *jobs); /* whoever watches a job that has ended knows of it, and has the output */
void jobs_awake(struct jobs *jobs);

/* Refuses new jobs from now on; durable ones that have not begun leave, and stay in the store. */
void jobs_drain(struct jobs *jobs);
void jobs_interrupt_all(struct jobs *jobs);
void jobs_finish_executors(struct jobs *jobs); /* asks each to end; counters.n_executors tells how many are left */
uint64_t jobs_open(const struct jobs *jobs);   /* not final */
/* For people: how many jobs a worker has begun, and how many are open besides. */
void jobs_load(const struct jobs *jobs, uint64_t *ret_running, uint64_t *ret_waiting);
void jobs_set_limits(struct jobs *jobs, const struct jobs_limits *limits);
/* Of one user, instead of those: of them what ends with _per_user. NULL: as everybody. 0 or -ENOMEM. */
int jobs_set_user_limits(struct jobs *jobs, uint32_t uid, const struct jobs_limits *limits);
/* Bytes that jobs and schedules take here, roughly: costs nothing to ask. */
uint64_t jobs_weight(const struct jobs *jobs);
/* After a burst: gives back what tables had for it, a bounded part a call. True: there is more. Memory itself is the
 * allocator's. */
bool jobs_shrink(struct jobs *jobs);
void jobs_counters(struct jobs *jobs, struct jobs_counters *ret);

/* Of a submitter on another machine, instead of a path: no file of this one is opened for its jobs, by whatever
 * right. */
#define DIRECTORY_REMOTE "remote:"
struct directory *directory_new(const char *path);
struct directory *directory_ref(struct directory *d);
struct directory *directory_unref(struct directory *d);
const char *directory_path(const struct directory *d);
