/* SPDX-License-Identifier: Apache-2.0
 *
 * interface.h: what the callers of jobs/ share with the job table: options, requests, watches. They include
 * jobs/jobs.h. [loop]
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/code.h"
#include "base/list.h"
#include "proto/submit-options.h"

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
    uint64_t lanes_per_user;  /* direct lanes into one executor, which has RING_LANES */
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
        .quarantine_max_usec = 300ull * 1000000, .schedules_per_user = 100, .lanes_per_user = 32,                      \
        .ageing_usec = 10000000, .store_keep_usec = 7ull * 86400 * 1000000, .store_bytes = 1ull << 30                  \
    }

#define JOBS_ATTEMPTS      3u             /* runs of an idempotent job, if its executors die */
#define JOBS_WORKERS_MAX   1024u          /* workers of an executor */
#define JOBS_STACK_MIN     (256ull << 10) /* bytes of a worker's stack */
#define JOBS_STACK_MAX     (1ull << 30)
#define JOBS_TLS_DEFAULT   (UINT64_C(64) << 10)
#define JOBS_TLS_MAX       (UINT64_C(256) << 10)
#define JOBS_STACK_DEFAULT (8ull << 20)
#define JOBS_PLUGINS       2048u /* plugins of a domain; at most SHARED_PLUGINS of the executor */
#define JOBS_TAGS          3u    /* tags of a job */
#define JOBS_GATES         1024u /* functions, plugins and tags that are paused or limited */
/* reloads of a domain at the same time; each has an executor of its own for a while */
#define JOBS_RELOADS      4u
#define JOBS_INPUT_WINDOW (256u * 1024) /* input of one call that a client may send ahead, in bytes */
/* output of one job gathered in wsd before the rest waits in the executor's memory, in bytes */
#define JOBS_OUTPUT_WINDOW (1024u * 1024)

/* Settings of one trust domain. */
struct jobs_domain {
    const char *name;     /* NULL: the domain of all users that are in no other */
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

/* What the configuration says of runners of a name. */
struct runner_rules {
    bool configured;    /* it has a section, so jobs may come before their runner */
    bool shared;        /* its runners serve all users */
    uint64_t wait_usec; /* how long a job waits for a runner that is not there */
    uint32_t max;       /* runners at once; 0: any number */
};

struct jobs_options {
    struct event_base *base;
    struct jobs_limits limits;
    int executor_fd; /* wsd-executor, open */
    uint32_t workers;
    bool pin; /* each worker on a CPU of its own */
    /* bytes for thread-local variables of plugins, in each thread of an executor; at most JOBS_TLS_MAX */
    uint64_t static_tls;
    uint64_t stack_size;       /* of a worker, JOBS_STACK_MIN to JOBS_STACK_MAX */
    const char *plugin_dirs;   /* colon-separated, lives as long as the jobs */
    bool one_domain;           /* all users in one trust domain */
    uint32_t own_uid;          /* uid of wsd, and so of the executors */
    struct far_ends *far_ends; /* NULL: no user is a stranger */
    bool user_daemon;          /* a user's own wsd: plugins may be named by path */
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
    /* NULL: no name has a section. */
    struct runner_rules (*runner_rules)(const char *name, void *context);
    void *context;
};

struct jobs_counters {
    uint64_t submitted, bundled, refused, succeeded, failed, cancelled, timed_out, crashed, interrupted, rerun;
    uint64_t executors_started, executors_died, executors_distrusted;
    uint64_t n_open; /* now, not in a final state */
    uint64_t n_queued, n_handed, n_kept, n_executors;
    uint64_t n_runners;        /* connected */
    uint64_t n_bytes;          /* bytes charged to all users */
    uint64_t n_traces;         /* traces under way */
    uint64_t retried;          /* new tries after a failed one */
    uint64_t n_stored, n_dead; /* durable jobs that have ended; those of them that are out of retries */
    uint64_t store_bytes;      /* bytes on disk of all durable jobs */
    uint64_t n_lanes;          /* open direct lanes */
    uint64_t lanes_taken_back, lanes_refused;
    uint64_t direct_calls, direct_cpu_usec, direct_crashed, direct_interrupted, direct_timed_out;
    uint64_t direct_running;     /* now */
    uint64_t n_unread;           /* watches of ended jobs that still lack some of the output */
    uint64_t oldest_queued_usec; /* since the job that waits for a worker for longest was accepted; 0: none waits */
    /* transactions of the store: their number, their time, that of the last one and of the longest one */
    uint64_t store_commits, store_commit_usec, store_commit_last_usec, store_commit_most_usec;
    uint64_t output_most; /* bytes of output taken from executors in one turn of the loop, at most */
};

/* An id in the log. */
#define JOB_ID_FORMAT   "%016llx%016llx"
#define JOB_ID_ARGS(id) (unsigned long long)job_id_half(id), (unsigned long long)job_id_half((id) + 8)

static inline uint64_t job_id_half(const uint8_t *bytes)
{
    uint64_t half;

    memcpy(&half, bytes, sizeof(half));
    return be64toh(half);
}

#define INFO_KEPT(name, place, told) INFO_KEPT_##told(name)
#define INFO_KEPT_YES(name)          const char *name;
#define INFO_KEPT_NO(name)

/* Description of a job. Its texts live for the time of the call. */
struct job_info {
    uint8_t id[16];
    const char *plugin, *function, *error, *status, *worker, *backtrace, *key;
    KEPT_OPTIONS(INFO_KEPT) /* "": none */
    enum job_state state;
    int exit;
    uint32_t attempts, uid;
    uint64_t queued_usec, run_usec, cpu_usec, submitted_usec, done, total;
    bool durable, dead;
    uint32_t retries;
    uint64_t due_usec;    /* DELAYED: time left */
    uint32_t waits_for;   /* HELD: number of awaited jobs that have not ended */
    const uint8_t *batch; /* id of its batch; NULL: none */
    uint64_t placed;      /* bytes of its output in its part of an arena */
    /* Where one job was asked for: ids of those that it waits for, and that wait for it; NULL: not asked. */
    const struct job_near *near;
};

#define JOB_NEAR 16u /* ids on each side, at most */
struct job_near {
    uint32_t n_before, n_behind;
    uint8_t before[JOB_NEAR][16], behind[JOB_NEAR][16];
};

struct batch;
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
    bool until_disk;  /* refused where it cannot be written that its job was cancelled; other watches wait for that */
    const void *rest; /* valid during done(): the last bytes of the output, which output() has not delivered */
    size_t rest_size;
    uint64_t last_done;
};

/* Upward calls. The first is accepted or refused, exactly one of them. The last is done; after it the jobs do not use
 * the watch. Where the end cannot be told, refused replaces done: a durable job goes on after a restart, or its output
 * cannot be read. No call may call back into jobs for this watch, except from the moment that output returns. */
struct watch_ops {
    void (*accepted)(struct watch *w, const uint8_t id[16]);
    /* retry_usec: when to try again; 0: not known */
    void (*refused)(struct watch *w, int code, const char *text, uint64_t retry_usec);
    /* wsd ends, and this durable job goes on in the next wsd. Returns true where the watcher will ask that one for the
     * job; then the jobs do not use the watch after that. Otherwise, or where this is NULL, refused is called. */
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

/* A descriptor that the output goes to. */
struct job_output {
    int *fd;     /* the job may take it, and then sets it to -1 */
    bool either; /* where it cannot go there, it goes to the watch */
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

/* The rows of submit-options.h as members. */
#define REQUEST_TEXT(kind, name, ...)   const char *name; /* NULL or "": none */
#define REQUEST_NUMBER(kind, name, ...) SUBMIT_TYPE_##kind name;
#define REQUEST_LIST(kind, name, ...)   REQUEST_##kind(name)
#define REQUEST_TAGS(name)              const char *name; /* separated by commas; NULL or "": none */
#define REQUEST_IDS(name)                                                                                              \
    const uint8_t *name; /* 16 bytes each */                                                                           \
    uint32_t n_##name;
#define REQUEST_ARGS(name)                                                                                             \
    const char *name; /* each with its NUL */                                                                          \
    size_t name##_size;                                                                                                \
    uint32_t argc;

struct job_request {
    SUBMIT_FIELDS(REQUEST_TEXT, REQUEST_NUMBER, REQUEST_LIST, SUBMIT_NOTHING)
    const void *input;
    size_t input_size;
    bool detached, progress, more_input;
    bool waits; /* for its runner, as long as it takes */
    bool durable;
    const struct job_file *file; /* the input; NULL: `input` has it */
    /* With more_input: a pipe that has it all. The job may take it, and then sets it to -1. Where it cannot read it,
     * the watch is told of room for input. NULL: none. */
    int *pipe;
    const struct job_parts *parts;   /* NULL: none */
    const struct job_output *output; /* NULL: it goes to the watch */
    struct batch_watch *batch;       /* its batch, by the watch of the batch's owner; NULL: none */
    const uint8_t *id;               /* NULL: a new one */
    struct directory *directory;     /* NULL: none; a reference is taken */
    uint32_t uid;
};

/* Follows the jobs of an array; embedded in the submitter's object, with ops set. It must stay until each job has
 * ended, or until jobs_array_split() and jobs_unwatch() of each job that was taken, and jobs_array_gone(). */
struct array_watch {
    const struct array_watch_ops *ops;
    uint32_t n;          /* jobs of the array */
    uint32_t taken;      /* the first so many were accepted or refused */
    uint8_t id[16];      /* of the first one, once the first are taken; the others' count up in the last 8 bytes */
    struct list bundles; /* here and below: private to the jobs */
    struct batch *batch; /* while not all are taken; NULL: of none */
};

/* One end in ended(): what differs between the jobs of that call. */
struct array_end {
    uint64_t queued_usec, run_usec, cpu_usec;
    const void *output;
    size_t size;
};

/* Upward calls. Most jobs of an array need no watch of their own: accepted and then ended tell of them. */
struct array_watch_ops {
    /* Puts the arguments and the input of the i-th job into the request. Called for each job, in order; again for the
     * job that jobs_submit_array() begins with. */
    void (*next)(struct array_watch *w, struct job_request *r, uint32_t i);
    /* Returns the watch of one job. Called before the job is submitted by itself; or, with `accepted`, when an accepted
     * one becomes a job of its own. NULL: no memory; then the submitter must await none of the array's jobs. */
    struct watch *(*item)(struct array_watch *w, uint32_t i, bool accepted);
    void (*accepted)(struct array_watch *w, uint32_t first, uint32_t n);
    /* n more were taken, or refused. Returns whether to go on with others now. */
    bool (*goes_on)(struct array_watch *w, uint32_t n);
    /* Whether it can take ends with so many bytes of output together, now. */
    bool (*takes)(struct array_watch *w, uint64_t size);
    /* n successive jobs have ended: `info` has what they share, `ends` what differs. w may be freed by this call. */
    void (*ended)(struct array_watch *w, uint32_t first, uint32_t n, const struct job_info *info,
                  const struct array_end ends[]);
};

/* Replaces the path for a submitter on another machine: no file of this machine is opened for its jobs, by any
 * right. */
#define DIRECTORY_REMOTE "remote:"
struct directory *directory_new(const char *path);
struct directory *directory_ref(struct directory *d);
struct directory *directory_unref(struct directory *d);
const char *directory_path(const struct directory *d);
