/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.h: the job table: admission, queueing, hand-over to executors, recovery, results. Everything here is [loop].
 *
 * Answers come through watches. A watch follows one job and is embedded in the follower's object (the frontend's call).
 * An accepted job ends in exactly one final state, and each watch is told of it once.
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
    uint64_t jobs; /* jobs not in a final state, all users */
    uint64_t jobs_per_user;
    uint64_t rate, rate_per_user;       /* jobs submitted in a second; 0: any number */
    uint64_t rate_burst;                /* burst size after a pause; 0: as many as in a second */
    uint64_t running, running_per_user; /* handed over at once; 0: any number */
    uint64_t bytes, bytes_per_user;     /* bytes of arguments, inputs and results that are kept or not yet read */
    uint64_t input;                     /* bytes of one job's whole input */
    uint64_t result;                    /* bytes of output kept for a detached job */
    uint64_t keep_usec;                 /* how long the result of a detached job is kept */
    uint64_t grace_usec;                /* between the cancel flag and the end of the executor */
    uint64_t idle_usec;                 /* an executor without work ends after this */
    uint64_t load_usec;                 /* limit for a plugin's constructors and init */
    uint64_t hang_usec;                 /* an executor that neither answers nor takes a job for so long is replaced */
    uint64_t recycle_jobs;              /* an executor is replaced by a fresh one after so many jobs; 0: never */
    uint64_t recycle_growth;            /* likewise after it has grown by so many bytes; 0: never */
    uint64_t max_run_usec;              /* longest run of a job; 0: any. A plugin's configuration may override it */
    uint64_t max_wait_usec;             /* longest time of a job in the queue; 0: any */
    uint64_t quarantine_after;          /* crashes of a function before its first quarantine */
    uint64_t quarantine_max_usec;       /* longest quarantine */
    uint64_t schedules_per_user;
    uint64_t ageing_usec;     /* a job that has waited so long has turns beside higher priorities */
    uint64_t store_keep_usec; /* how long the end of a durable job is kept */
    /* bytes on disk of all durable jobs; above it, a user's oldest ended jobs go first, then new ones are refused */
    uint64_t store_bytes;
};

#define JOBS_LIMITS_DEFAULT                                                                                            \
    {                                                                                                                  \
        .jobs = 10000000, .jobs_per_user = 1000000, .bytes = 16ull << 30, .bytes_per_user = 4ull << 30,                \
        .input = 1ull << 30, .result = 64ull << 20, .keep_usec = 300ull * 1000000, .grace_usec = 2000000,              \
        .idle_usec = 300ull * 1000000, .load_usec = 10000000, .hang_usec = 30000000, .quarantine_after = 3,            \
        .quarantine_max_usec = 300ull * 1000000, .schedules_per_user = 100, .ageing_usec = 10000000,                   \
        .store_keep_usec = 7ull * 86400 * 1000000, .store_bytes = 1ull << 30                                           \
    }

#define JOBS_ATTEMPTS      3u             /* runs of an idempotent job whose executors die */
#define JOBS_WORKERS_MAX   1024u          /* workers of an executor */
#define JOBS_STACK_MIN     (256ull << 10) /* bytes of a worker's stack */
#define JOBS_STACK_MAX     (1ull << 30)
#define JOBS_TLS_DEFAULT   (UINT64_C(64) << 10)
#define JOBS_TLS_MAX       (UINT64_C(256) << 10)
#define JOBS_STACK_DEFAULT (8ull << 20)
#define JOBS_PLUGINS       2048u /* plugins of a domain; at most WORK_PLUGINS of the executor */
#define JOBS_TAGS          3u    /* tags of a job */
#define JOBS_GATES         1024u /* functions, plugins and tags that are paused or limited */
/* reloads of a domain at the same time; each has an executor of its own for a while */
#define JOBS_RELOADS      4u
#define JOBS_INPUT_WINDOW (256u * 1024) /* input of one call that a client may send ahead, in bytes */
/* output of one job gathered in wsd before the rest waits in the executor's memory, in bytes */
#define JOBS_OUTPUT_WINDOW (1024u * 1024)

/* Settings of one trust domain. */
struct jobs_domain {
    const char *name;     /* NULL: the domain of all users who are in no other */
    const uint32_t *uids; /* its users; several share one executor */
    uint32_t n_uids;
    uint32_t workers;    /* of each executor; 0: as in all other domains */
    uint64_t memory;     /* of each executor, in bytes; 0: without limit */
    bool own_memory;     /* `memory` comes from the domain's own section, not from [limits] */
    bool plugin_memory;  /* `memory` comes from the section of the plugin that the executor is for */
    uint64_t tasks;      /* processes and threads of each executor beside its workers; 0: without limit */
    uint32_t cpu_weight; /* of each executor; 0: 100 */
};

/* The uid under which executors run. */
enum jobs_user_ids {
    JOBS_USER_IDS_AUTO = 0, /* the user's own where wsd has the right, else wsd's */
    JOBS_USER_IDS_YES,      /* the user's own; without the right no executor runs */
    JOBS_USER_IDS_NO,       /* wsd's */
};

/* Whether each executor has a cgroup of its own. */
enum jobs_cgroups {
    JOBS_CGROUPS_AUTO = 0, /* where a service manager allows wsd to make cgroups */
    JOBS_CGROUPS_YES,      /* always; wsd does not start where that is impossible */
    JOBS_CGROUPS_NO,
};
#define JOBS_CPU_WEIGHT_MAX 10000u

#define JOBS_FIRST_USER_ID 1000u /* users and groups of the system are below it */

struct jobs_options {
    struct event_base *base;
    struct jobs_limits limits;
    int executor_fd; /* wsd-executor, open */
    uint32_t workers;
    bool pin; /* each worker on a CPU of its own */
    /* bytes for thread-local variables of plugins, in each thread of an executor; at most JOBS_TLS_MAX */
    uint64_t static_tls;
    uint64_t stack_size;     /* of a worker, JOBS_STACK_MIN to JOBS_STACK_MAX */
    const char *plugin_dirs; /* colon-separated, lives as long as the jobs */
    bool one_domain;         /* all users in one trust domain */
    uint32_t own_uid;        /* uid of wsd, and so of the executors */
    bool user_daemon;        /* a user's own wsd: plugins may be named by path */
    int log_level;
    const char *state_dir; /* NULL: none; lives as long as the jobs */
    /* for executors, in the format of ring/control.h, without the memory; lives as long as the jobs */
    const char *sandbox;
    bool leaves_core;                  /* a crashing executor may write a core */
    const struct jobs_domain *domains; /* the first is for all users in no other; live as long as the jobs */
    uint32_t n_domains;                /* at least 1 */
    enum jobs_user_ids user_ids;
    uint32_t first_user_id; /* users below it run under wsd's uid, or not at all */
    const char *spawner;    /* wsd-spawn, or the socket of wsd-spawn.service */
    enum jobs_cgroups cgroups;
    /* Whether the configuration turns this plugin on. is_opt_in: the function asks to be off by default. */
    bool (*plugin_enabled)(const char *plugin, bool is_opt_in, void *context);
    /* Whether the configuration restricts the plugin's users; watch_ops.may_use then decides. NULL: every submitter may
     * use it. */
    bool (*plugin_restricted)(const char *plugin, void *context);
    /* Whether the configuration gives the plugin an executor of its own. NULL: never. */
    bool (*plugin_own)(const char *plugin, void *context);
    /* Sets what the plugin's own executor has other than the user's domain. NULL: nothing. */
    void (*plugin_share)(const char *plugin, struct jobs_domain *settings, void *context);
    /* Longest run of a job of this plugin; 0: any. *ret_of is NULL, or the plugin by the section of which it is set. A
     * NULL callback: as in limits. */
    uint64_t (*plugin_max_run)(const char *plugin, const char **ret_of, void *context);
    void *context;
};

struct jobs_counters {
    uint64_t submitted, bundled, refused, succeeded, failed, cancelled, timed_out, crashed, interrupted, rerun;
    uint64_t executors_started, executors_died, executors_distrusted;
    uint64_t n_open; /* now, not in a final state */
    uint64_t n_queued, n_handed, n_kept, n_executors;
    uint64_t n_bytes;          /* bytes charged to all users */
    uint64_t n_traces;         /* traces under way */
    uint64_t retried;          /* new tries after a failed one */
    uint64_t n_stored, n_dead; /* durable jobs that have ended; those of them that are out of retries */
    uint64_t store_bytes;      /* bytes on disk of all durable jobs */
    uint64_t n_lanes;          /* open direct lanes */
    uint64_t direct_calls, direct_cpu_usec, direct_crashed, direct_interrupted, direct_timed_out;
    uint64_t direct_running; /* now */
    uint64_t n_unread;       /* watches of ended jobs that still lack some of the output */
    uint64_t output_most;    /* bytes of output taken from executors in one turn of the loop, at most */
};

/* Description of a job. Its texts live for the time of the call. */
struct job_info {
    uint8_t id[16];
    const char *plugin, *function, *error, *status, *worker, *backtrace, *key;
    enum job_state state;
    int exit;
    uint32_t attempts, uid;
    uint64_t queued_usec, run_usec, cpu_usec, submitted_usec, done, total;
    bool durable, dead;
    uint32_t retries;
    uint64_t due_usec;    /* DELAYED: time left */
    uint32_t waits_for;   /* HELD: number of awaited jobs that have not ended */
    const char *tags;     /* separated by commas */
    const uint8_t *batch; /* id of its batch; NULL: none */
    uint64_t placed;      /* bytes of its output in its part of an arena */
};

struct batch_watch;
struct watch_ops;

/* Follows one job. The caller zeroes it and sets ops before it hands it in. */
struct watch {
    const struct watch_ops *ops;
    struct job *job;            /* NULL: none yet, or ended */
    struct watch *next, **link; /* next watch of the job; the pointer that points to this watch */
    struct list progress;
    uint64_t offset; /* of the next output byte to deliver */
    bool owner;      /* its end cancels a job that is not detached */
    bool wants_progress;
    bool late;        /* the job has ended and this watch still lacks some of the output */
    const void *rest; /* valid during done(): the last bytes of the output, which output() has not delivered */
    size_t rest_size;
    uint64_t last_done;
};

/* Upward calls. The first is accepted or refused, exactly one of them. The last is done; after it the jobs no longer
 * use the watch. Where the end cannot be told, refused replaces done: a durable job goes on after a restart, or its
 * output cannot be read. No call may call back into jobs for this watch, except from the moment that output returns. */
struct watch_ops {
    void (*accepted)(struct watch *w, const uint8_t id[16]);
    /* retry_usec: when to try again; 0: not known */
    void (*refused)(struct watch *w, int code, const char *text, uint64_t retry_usec);
    /* wsd ends, and this durable job goes on in the next wsd. Returns true where the watcher will ask that one for the
     * job; then the jobs no longer use the watch. Otherwise, or where this is NULL, refused is called. */
    bool (*deferred)(struct watch *w, const uint8_t id[16]);
    /* Takes as much of the output as it can now; returns how much. jobs_output_ready() says when it can take more. */
    size_t (*output)(struct watch *w, const void *data, size_t size);
    /* Whether done() can take the last `size` bytes as w->rest. */
    bool (*takes_rest)(struct watch *w, size_t size);
    /* The job took this much input, so the client may send as much again. NULL: the client sends all at once. */
    void (*input_taken)(struct watch *w, size_t size);
    /* NULL: messages are dropped. */
    void (*message)(struct watch *w, int level, const char *text);
    /* NULL: it never sets wants_progress. */
    void (*progress)(struct watch *w, uint64_t done, uint64_t total);
    /* Asks for one of the submitter's files; jobs_opened() answers. Returns 0 or a negative errno. NULL: as -ENOTCONN,
     * which also says that the submitter has gone. */
    int (*open)(struct watch *w, uint32_t serial, const char *path);
    /* Whether the watcher may use a restricted plugin. Asked of the owner, once, before accepted. */
    bool (*may_use)(struct watch *w, const char *plugin);
    void (*done)(struct watch *w, const struct job_info *info);
};

/* Input that lies in a file. */
struct job_file {
    int *fd; /* the job may take it, and then sets it to -1 */
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
    const char *plugin, *function; /* function "": the plugin's main function */
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
    uint64_t retry_usec;              /* first pause; 0: the default */
    uint64_t delay_usec;              /* start after this delay; 0: at once */
    uint64_t at_usec;                 /* start at this time (CLOCK_REALTIME); 0: at once */
    uint64_t queue_usec;              /* longest time in the queue; 0: any */
    const uint8_t *after, *after_any; /* ids of jobs to run after, 16 bytes each: on success; on any end */
    uint32_t n_after, n_after_any;
    const char *tags;              /* separated by commas; NULL or "": none */
    const struct job_file *file;   /* the input; NULL: `input` has it */
    const struct job_parts *parts; /* NULL: none */
    struct batch_watch *batch;     /* its batch, by the watch of the batch's owner; NULL: none */
    const uint8_t *id;             /* NULL: a new one */
    struct directory *directory;   /* NULL: none; a reference is taken */
    uint32_t uid;
};

/* Follows the jobs of an array; embedded in the submitter's object, with ops set. It must stay until each job has
 * ended, or until jobs_array_split() and a jobs_unwatch() of each job. */
struct array_watch {
    const struct array_watch_ops *ops;
    struct list bundles; /* private to the jobs */
};

/* One end in ended(): what differs between the jobs of that call. */
struct array_end {
    uint64_t queued_usec, run_usec, cpu_usec;
    const void *output;
    size_t size;
};

/* Upward calls. Most jobs of an array need no watch of their own: accepted and then ended tell of them. */
struct array_watch_ops {
    /* Puts the arguments and the input of the i-th job into the request. Called once for each job, in order. */
    void (*next)(struct array_watch *w, struct job_request *r, uint32_t i);
    /* Returns the watch of one job. Called before the job is submitted by itself; or, with `accepted`, when an accepted
     * one becomes a job of its own. NULL: no memory; then the submitter must await none of the array's jobs. */
    struct watch *(*item)(struct array_watch *w, uint32_t i, bool accepted);
    void (*accepted)(struct array_watch *w, uint32_t first, uint32_t n);
    /* Whether it can take ends with so many bytes of output together, now. */
    bool (*takes)(struct array_watch *w, uint64_t size);
    /* n successive jobs have ended: `info` has what they share, `ends` what differs. w may be freed by this call. */
    void (*ended)(struct array_watch *w, uint32_t first, uint32_t n, const struct job_info *info,
                  const struct array_end ends[]);
};

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
/* The same for many jobs that differ only in their arguments and input. *ret_id is the id of the first job. The other
 * ids count up in the last 8 bytes, little endian. Returns how many were accepted or refused. Where that is less than
 * n, the last of them was refused for a reason that holds for all later ones too. */
uint32_t jobs_submit_array(struct jobs *jobs, struct job_request *r, uint32_t n, uint8_t ret_id[16],
                           struct array_watch *w);
/* Makes this item (UINT32_MAX: each) a job of its own, if it is not, with the watch that ops->item() returns. */
void jobs_array_split(struct array_watch *w, uint32_t item);
/* Makes an arena: memory for inputs and outputs of this user's jobs. Returns 0 or -ENOMEM. With 0, either *ret_arena is
 * set and the descriptor taken, or *ret_refusal and *ret_code say why not, and *ret_retry_usec when to try again, where
 * that is known. After jobs_arena_drop() no new job can use the arena; running ones go on. NULL is fine; it returns
 * NULL. */
int jobs_arena_new(struct jobs *jobs, uint32_t uid, int *fd, struct arena **ret_arena, int *ret_code,
                   const char **ret_refusal, uint64_t *ret_retry_usec);
struct arena *jobs_arena_drop(struct arena *arena);
/* Adds input, at most JOBS_INPUT_WINDOW ahead of input_taken. Returns 0, or -EPROTO where the client is out of turn. */
int jobs_input(struct watch *owner, const void *data, size_t size, bool last);
/* Here and below, uid 0 means the jobs of all users; the caller decides who may use it. Follows a job. Returns -ENOENT
 * where this user has no such job; -EAGAIN where wsd is ending and the next one may have the job. */
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

/* --- batches: many jobs as a unit (batch.c) ----------------------------------------------------------------------- */

#define JOBS_BATCHES_PER_USER 1024u /* open, or ended and kept */

struct batch_info {
    uint8_t id[16];
    uint32_t uid;
    bool closed, ended, stopped; /* stopped: jobs that had not begun end as cancelled */
    bool cancelled;              /* the whole batch was cancelled */
    int exit;                    /* of the first job, in batch order, that has failed so far */
    uint64_t total, queued, running, done, failed;
    uint64_t submitted_usec; /* CLOCK_REALTIME */
};

/* Follows a batch; embedded in the frontend's call. */
struct batch_watch {
    struct list link, progress;
    struct batch *batch; /* NULL: ended */
    bool owner;
    bool cancel_closes; /* owner: a cancel also closes the batch */
    uint64_t told;      /* at the last tell(): number of accepted jobs plus number of ended ones */
    /* The call with info->ended is the last; after it the jobs no longer use w. */
    void (*tell)(struct batch_watch *w, const struct batch_info *info);
};

/* Opens a batch. The owner adds jobs (job_request.batch) until it closes the batch or goes. A failed job stops the jobs
 * behind it, unless keep_going. A detached batch is kept as long as a detached job; any other is stopped when its owner
 * goes. Returns 0, -ENOMEM, or -EDQUOT: this user has too many. */
int jobs_batch_open(struct jobs *jobs, uint32_t uid, bool keep_going, bool detached, bool progress,
                    struct batch_watch *owner);
void jobs_batch_close(struct batch_watch *owner);
bool jobs_batch_is_open(const struct batch_watch *owner);      /* jobs may be added */
bool jobs_batch_is_cancelled(const struct batch_watch *owner); /* new jobs are refused */
bool jobs_batch_is_detached(const struct batch_watch *owner);
/* 0 or -ENOENT */
int jobs_batch_watch(struct jobs *jobs, const uint8_t id[16], uint32_t uid, bool progress, struct batch_watch *w);
void jobs_batch_unwatch(struct batch_watch *w); /* also where w follows no batch */
void jobs_batch_look(const struct batch_watch *w, struct batch_info *ret);
int jobs_batch_info(struct jobs *jobs, const uint8_t id[16], uint32_t uid, struct batch_info *ret); /* 0 or -ENOENT */
/* Cancels every job of the batch that has not ended; no job can be added after that. uid: the call acts with this
 * user's rights. by: the user named in the log. Returns 0; -EALREADY: it had ended; -ENOENT. */
int jobs_batch_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by);
void jobs_batch_cancel_watched(struct batch_watch *w, uint32_t uid, uint32_t by);

/* A request to queue a dead job (out of retries) again, or to forget it. Embedded in the asker's object. */
struct dead_query {
    struct disk_request *request;                                     /* NULL: answered */
    void (*answer)(struct dead_query *q, int code, const char *text); /* code 0: done; else an exit code and words */
};
/* Returns 0: answer will be called; -ENOENT: there is no such job; -EBUSY: another request for it is under way;
 * -EAGAIN: wsd is draining; -ENOMEM. uid, by: as in jobs_batch_cancel(). */
int jobs_dead(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by, bool requeue, struct dead_query *q);
void jobs_dead_forget(struct dead_query *q);

/* --- schedules: jobs that are submitted again and again (schedule.c) --- */

#define SCHEDULE_NAME_MAX 64u /* bytes, with NUL */

struct schedule;

struct schedule_request {
    const char *name, *calendar; /* calendar: in the syntax of base/calendar.h */
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

/* Cancels a job. Returns 0; -EALREADY: it had ended; -ENOENT. uid, by: as in jobs_batch_cancel(). */
int jobs_cancel(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by);
void jobs_cancel_watched(struct watch *w, uint32_t uid, uint32_t by); /* the same for the followed job */

/* A query about plugins, embedded in the asker's object. Each answer is a call; the last has info NULL. */
struct plugin_info {
    const char *name, *version, *help, *path, *error;
    const struct plugin_function_info {
        const char *name, *help;
        uint64_t flags;
        const char *why; /* of the last crash; NULL: no recent one */
        uint32_t crashes;
        bool in_quarantine, on_probe;
        uint64_t quarantine_usec; /* time left */
    } * functions;
    size_t n_functions;
    uint32_t apart;    /* has an executor of its own: 1 by configuration, 2 because it has crashed; 0: no */
    const char *build; /* build id of the file, or "" */
    enum plugin_reloaded {
        RELOADED_NOT = 0, /* not asked for; or the load failed (error), and no older file is in use */
        RELOADED_FIRST,   /* nothing was loaded before */
        RELOADED_SAME,    /* the file has not changed */
        RELOADED_CHANGED,
        RELOADED_KEPT, /* the new file cannot be loaded (error): the old one stays in use */
    } reloaded;
    const char *old_version, *old_build; /* with CHANGED, SAME and KEPT */
};
struct plugin_query {
    struct list link; /* in no list once answered */
    void (*answer)(struct plugin_query *q, const struct plugin_info *info, int error);
};
/* Returns 0, and q->answer is called; or -EACCES (a path where only names are allowed), -ENAMETOOLONG or -ENOMEM
 * without an answer. directory: the base of a relative path; NULL: not known. */
int jobs_plugin(struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                struct plugin_query *q);
void jobs_plugin_forget(struct plugin_query *q);
/* Loads the plugin's file now, for the users whose executor is `owner` (see jobs_plugin_users()). If that succeeds,
 * jobs submitted after the answer use it. Returns as jobs_plugin(), or -EBUSY: another reload of this plugin is under
 * way, or JOBS_RELOADS others are. */
int jobs_plugin_reload(struct jobs *jobs, uint32_t uid, uint64_t owner, const char *plugin,
                       const struct directory *directory, struct plugin_query *q);
/* Returns the owners of the executors that a reload by uid affects: those that have the plugin, of this user or (all)
 * of all users. Where none has it, the user's own. The caller frees. Errors: as jobs_plugin(). */
int jobs_plugin_users(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const struct directory *directory,
                      uint64_t **ret_owners, size_t *ret_n);
uint32_t jobs_owner_uid(const struct jobs *jobs, uint64_t owner); /* UINT32_MAX: several users share that executor */
/* Ends the quarantine of a function ("": all of the plugin), for this user or for all. Returns 0; -ENOENT: no crash of
 * it is recorded; -ENAMETOOLONG, -ENOMEM. */
int jobs_plugin_release(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const char *function,
                        const struct directory *directory);
/* Returns the names of the plugins in the plugin directories, sorted, one after the other, each with its NUL. The
 * caller frees. */
int jobs_plugin_names(struct jobs *jobs, char **ret_names, size_t *ret_size);

/* --- gates: what may be handed over, and how much of it at once --------------------------------------------------- */

enum jobs_gate_action {
    JOBS_GATE_PAUSE = 1,  /* accepts jobs and lets them wait; running ones go on */
    JOBS_GATE_RESUME = 2, /* ends a pause; without a plugin also the drain */
    JOBS_GATE_DRAIN = 3,  /* refuses new jobs; present ones run. Only without a plugin */
    JOBS_GATE_LIMIT = 4,  /* at most `limit` running at once, of all users; 0: any number */
};

#define JOBS_BY_CONFIGURATION UINT32_MAX /* instead of a uid */

struct jobs_gate_request {
    enum jobs_gate_action action;
    uint32_t uid;                  /* for the log */
    const char *plugin, *function; /* plugin "": all jobs; function "": all of the plugin */
    const char *tag;               /* instead of plugin and function; "": none */
    uint32_t limit;
};

struct jobs_gate_info {
    const char *plugin, *function, *tag;
    bool paused, drained;
    uint32_t limit;
    /* running: handed over. waiting: at this gate; with plugin "": all open jobs that are not handed over */
    uint64_t running, waiting;
};

/* Pauses, resumes, drains or limits. The caller checks that the user is an administrator. Returns 0; -ENOENT: neither
 * paused nor limited; -ENOSPC: JOBS_GATES are; -EINVAL; -ENOMEM. */
int jobs_gate(struct jobs *jobs, const struct jobs_gate_request *request);
/* Calls each for plugin "", then for each gate. */
void jobs_gates(struct jobs *jobs, void (*each)(const struct jobs_gate_info *info, void *userdata), void *userdata);

/* --- questions to executors ------------------------------------------------------------------------------------- */

#define JOBS_ASK_USEC 10000000u /* an executor that has not answered by then is skipped */
#define JOBS_ASKS     64u       /* unanswered questions of one executor */

enum jobs_query {
    JOBS_WORKERS = 1, /* the counters of each worker */
    /* sets the number of workers to `argument`, in new executors too; the caller checks for an administrator */
    JOBS_SET_WORKERS = 2,
    JOBS_TRACE_START = 3, /* traces the user's executor, present and future; uid 0: all executors. Sets q->trace */
    JOBS_TRACE_STOP = 4,  /* ends the trace that this user has started, and returns it */
};

extern const char *const jobs_counter_names[]; /* names of a worker's counters, in the order of worker_info.counters */
extern const size_t jobs_n_counters;

struct worker_info {
    uint32_t worker;
    uint32_t kind; /* enum control_worker_kind */
    uint32_t cpu;  /* CPU number plus 1; 0: not pinned */
    const uint64_t *counters;
};

/* The text of a trace as an executor wrote it; not to be trusted. */
struct trace_report;
/* Reads at most size bytes from offset. Returns how many; 0 at the end. */
size_t trace_report_read(const struct trace_report *r, uint64_t offset, void *data, size_t size);
struct trace_report *trace_report_free(struct trace_report *r);

/* One executor's answer. It lives for the time of the call, except for report. */
struct executor_answer {
    uint32_t executor;
    uint32_t uid; /* of the user that the executor serves; UINT32_MAX: several users */
    /* 0 or a positive errno: ETIMEDOUT, ESRCH (it ended), EBADMSG (invalid answer), or the executor's own */
    int error;
    uint32_t workers;
    uint64_t lost;               /* events of a trace that were overwritten */
    struct trace_report *report; /* NULL, or owned by the receiver, which frees it */
};

/* A query, embedded in the asker's object, zeroed except for the calls. */
struct executor_query {
    struct list parts;
    struct event *timer;
    bool asking;    /* done has not been called */
    uint32_t trace; /* TRACE_START: number of the trace, for jobs_trace_drop() */
    void (*worker)(struct executor_query *q, uint32_t executor, const struct worker_info *info); /* WORKERS */
    /* after the calls of worker for this executor */
    void (*answer)(struct executor_query *q, const struct executor_answer *a);
    void (*done)(struct executor_query *q); /* the last call, perhaps from jobs_query() itself */
};

/* Returns 0: done will be called; -EACCES; -EBUSY (another trace is under way, or not read yet); -ENOENT (this user has
 * no trace); -EINVAL; -ENOMEM. */
int jobs_query(struct jobs *jobs, uint32_t uid, enum jobs_query what, uint32_t argument, struct executor_query *q);
/* Forgets the query: no more calls. */
void jobs_query_forget(struct executor_query *q);
/* Ends this trace, if it is still under way, and discards it. */
void jobs_trace_drop(struct jobs *jobs, uint32_t number);
/* For the configuration: as JOBS_SET_WORKERS, without an answer. */
void jobs_set_workers(struct jobs *jobs, uint32_t workers);

/* --- direct lanes ------------------------------------------------------------------------------------------------ */

struct lane;

/* The user of a direct lane, embedded in the caller's object. The caller zeroes it and sets ops before it hands it
 * in. */
struct lane_user {
    const struct lane_ops *ops;
    struct lane *lane; /* NULL: none */
};

struct lane_ops {
    /* The lane is open. The descriptors are for the client, and live for the time of the call. */
    void (*opened)(struct lane_user *u, int memory_fd, int grant_fd);
    bool (*may_use)(struct lane_user *u, const char *plugin); /* as in watch_ops */
    /* There is no lane, or it has ended. This is the last call. code 0: the executor has ended, and another will
     * come. */
    void (*gone)(struct lane_user *u, int code, const char *text);
};

/* A query for the number of a function; embedded in the asker's object. */
struct lane_bind {
    struct plugin_query query; /* private, like all fields except answer, number and idempotent */
    struct list link;
    struct lane_user *user;
    char *request, function[64];
    bool told; /* the executor was told of the function */
    uint32_t number;
    bool idempotent;
    void (*answer)(struct lane_bind *b, int code, const char *text); /* code 0: number is set */
};

/* Whether this kernel supports direct lanes. */
bool jobs_lanes_available(void);
/* Returns NULL: opened or gone is called later; or the reason why not, and no call follows. */
const char *jobs_lane_open(struct jobs *jobs, uint32_t uid, struct directory *directory, struct lane_user *u);
/* Returns 0: answer is called, now or later; -EINVAL (no open lane, or a name that is too long), -EACCES,
 * -ENAMETOOLONG, -ENOMEM. */
int jobs_lane_bind(struct lane_user *u, const char *plugin, const char *function, struct lane_bind *b);
void jobs_lane_forget(struct lane_bind *b); /* no answer will be called */
/* The client reports a long wait. */
void jobs_lane_waits(struct lane_user *u);
/* Cancels the running calls. No more calls of ops. */
void jobs_lane_close(struct lane_user *u);

/* Takes a bounded batch of completions from every executor. True: there may be more. */
bool jobs_poll(struct jobs *jobs);
/* Called before the loop sleeps. False: it must not sleep. */
bool jobs_asleep(struct jobs *jobs);
bool jobs_have_told(const struct jobs *jobs); /* each watch of an ended job has been told, and has the output */
void jobs_awake(struct jobs *jobs);

/* Refuses new jobs from now on. Durable jobs that have not begun leave, and stay in the store. */
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

/* Replaces the path for a submitter on another machine: no file of this machine is opened for its jobs, by any
 * right. */
#define DIRECTORY_REMOTE "remote:"
struct directory *directory_new(const char *path);
struct directory *directory_ref(struct directory *d);
struct directory *directory_unref(struct directory *d);
const char *directory_path(const struct directory *d);
