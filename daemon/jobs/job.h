/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h: a job, from its admission to its final state, and its watches. Everything here is [loop]. The rest of the
 * folder includes this header; code above the folder includes only jobs.h.
 */
#pragma once

#include <endian.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cost.h"
#include "base/buffer.h"
#include "base/freelist.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "jobs/arena.h"
#include "jobs/query.h"
#include "jobs/batch.h"
#include "jobs/bundle.h"
#include "jobs/gate.h"
#include "jobs/health.h"
#include "jobs/jobs.h"
#include "jobs/lane.h"
#include "jobs/names.h"
#include "jobs/plugins.h"
#include "jobs/recall.h"
#include "jobs/recycle.h"
#include "jobs/results.h"
#include "jobs/schedule.h"
#include "sched/breaker.h"
#include "sched/due.h"
#include "sched/fair-queue.h"
#include "sched/fair-slots.h"
#include "sched/retry-after.h"
#include "supervisor/executor.h"
#include "supervisor/helper.h"
#include "supervisor/orphans.h"

struct batch;
struct store_row;

#define JOB_TEXT           256u
#define JOB_ID_FORMAT      "%016llx%016llx" /* for the log */
#define JOB_ID_ARGS(id)    (unsigned long long)job_id_half(id), (unsigned long long)job_id_half((id) + 8)
#define JOBS_KEPT_PER_USER 10000u
#define WSD_STATUS_LAST    63 /* WSD_STATUS_MAX of <wsd/plugin.h>: the exit code where wsd itself refuses */

static inline uint64_t job_id_half(const uint8_t *bytes)
{
    uint64_t half;

    memcpy(&half, bytes, sizeof(half));
    return be64toh(half);
}

/* One user, for accounting. */
struct user {
    struct hash_link by_uid;
    uint32_t uid;
    uint32_t n_jobs;  /* not in a final state */
    struct list kept; /* jobs in a final state with a kept result, oldest first */
    uint32_t n_kept;
    uint32_t n_fds;       /* descriptors of inputs */
    uint32_t n_schedules; /* schedules, without those of the configuration */
    uint32_t n_batches;   /* batches that can be found by their id */
    struct list stored;   /* struct policy: durable jobs that have ended and will expire, the next one first */
    uint32_t n_stored;
    uint64_t store_bytes; /* bytes on disk of all durable jobs of the user */
    uint32_t n_direct;    /* calls that the user's direct lanes may have under way */
    uint64_t n_bytes;     /* arguments, inputs and kept results */
    uint32_t n_running;   /* jobs handed over */
    uint64_t placed;      /* run_slots.n_taken when a job of this user was last handed over */
    uint64_t rate_nsec;   /* see rate_wait() */
    struct gate *gate;    /* where jobs above running_per_user wait; NULL: none does */
    uint64_t n_selected;  /* ids that the user's selections hold */
    struct retry_after retry_after, bytes_retry_after; /* for jobs_per_user; for bytes_per_user */
    struct jobs_limits *own_limits;                    /* in place of the general limits; NULL: none */
};

/* A path that many jobs of one connection share. */
struct directory {
    uint32_t n_refs;
    char path[];
};

struct plugin_function {
    char *name, *help;
    uint64_t flags;
    uint32_t index;    /* in the plugin's table; RING_NONE: a newer file lacks the function */
    uint64_t innocent; /* job-breaker.c: breakers.n_added when this function was last looked up and not found */
    /* job_resolve(): equals jobs->n_configured where every job that has nothing but arguments and input can skip the
     * checks */
    uint64_t cacheable;
    /* bundle.c: how long recent jobs took, and the most that they wrote (bytes, in 1/64) */
    struct cost cost;
    uint32_t output;
};

enum plugin_state { PLUGIN_UNKNOWN, PLUGIN_LOADING, PLUGIN_READY, PLUGIN_FAILED };

/* A plugin as one domain's executor has it. */
struct plugin {
    struct list link; /* domain->plugins.all */
    struct domain *domain;
    uint32_t number; /* the same in each executor of the domain */
    enum plugin_state state;
    bool stale; /* the file has changed: new jobs use a newer entry */
    /* only questions have asked for it so far: it is dropped first, and no executor preloads it */
    bool looked;
    uint64_t used; /* domain->plugins.n_used at its last use */
    char *request; /* name or path, as submitted */
    char *title;   /* its own name, as an earlier wsd had learnt it; NULL: not known */
    char *name, *version, *help, *path;
    char *build;                  /* build id of the file, or "" */
    uint64_t digest;              /* of the file */
    struct plugin_reload *reload; /* the file is on trial, and jobs do not find this entry; NULL: no reload */
    struct plugin_function *functions;
    uint32_t n_functions, n_announced;
    bool begun;             /* LOADING: the executor has said that it is at it */
    bool excused;           /* LOADING: its executor is replaced, which had not begun with it */
    bool unread;            /* LOADING: some of what the executor reported was lost for want of memory */
    uint32_t n_jobs;        /* jobs that point here */
    uint64_t innocent;      /* as for a function */
    uint8_t in_next;        /* in the standby's executor: 1: being loaded, 2: loaded */
    bool settling;          /* the waiting jobs and queries are being told: it must not be freed */
    uint64_t stamp[4];      /* device, inode, size, time of change of the file */
    int error;              /* positive errno of a load that failed */
    char *error_text;       /* of job_words(): why it cannot be loaded */
    uint64_t load_order;    /* LOADING: its place in the order of loads, which the executor does one by one */
    uint32_t n_load_deaths; /* successive executors that died while loading it */
    uint64_t retry_usec;    /* CLOCK_MONOTONIC: no new load before */
    uint64_t checked_usec;  /* when the file was last looked at */
    struct list waiting;    /* jobs (NEW) and plugin queries that wait for the load */
    struct list queries;
    struct event *timer; /* a load that takes too long */
};

/* Fields that only some jobs need. */
struct job_more {
    struct job *job;     /* the job of this struct */
    struct event *timer; /* deadline, then grace, then expiry of a kept result */
    int input_fd;        /* memfd, or our end of the pipe */
    int pipe_fd;         /* the executor's end */
    struct event *pipe_event;
    /* input that came before the function was known, that the pipe did not take, or that is gathered here */
    struct buffer early;
    struct buffer output; /* the last bytes received: not yet given to each watch, or kept */
    uint64_t received;    /* bytes of output so far */
    uint64_t charged;     /* charged to the user, beyond what the job was submitted with */
    uint64_t input_size;  /* without the inline input: bytes in input_fd, or on disk */
    uint64_t input_at;    /* by_file: offset at which the input begins */
    struct list held;     /* pieces still in the executor's memory */
    struct list moved;    /* jobs->moved */
    struct list ends_due; /* jobs->ends_due */
    struct watch *untold; /* the first watch that was not told of the end; nor were those behind it */
    uint32_t held_chunks;
    char *error, *status, *backtrace;
    struct awaiting *awaiting; /* what the job runs after (after.h); NULL: nothing */
    struct awaited *awaited;   /* the jobs that run after it; NULL: none */
    char *tags;                /* separated by commas; NULL: none */
    struct arena_use *arena;   /* its use of an arena for input or output; NULL: none */
    struct policy *policy;     /* for a job that is durable, or has a key or retries (policy.h); NULL */
    struct job_time *time;     /* for a job with a delay, or with a limit of its time in the queue; NULL */
    char *limit;               /* words for its timeout, where the configuration set that; NULL: the submitter did */
    uint64_t timeout_usec, queued_usec, run_usec, cpu_usec;
    uint64_t done, total;
    char worker[24];
    int exit;
    uint8_t n_fds; /* descriptors of the input, counted for the user */
    uint8_t stop;  /* enum job_stop */
    bool input_last, input_broken;
    bool unkept;    /* allocated after the end, so it has no details of the end */
    bool no_retry;  /* cancelled when its answer was already sealed: that answer is the end */
    uint8_t sealed; /* enum job_stop: a stop came when the answer was sealed; the answer has the grace time to arrive */
    /* JOB_TRUNCATED, why: -ENOMEM; -EDQUOT: the limit of all users together; else the limits of the job and its user */
    int lost;
    bool by_file; /* input_fd is a file of the submitter's, which others may change */
};

enum job_stop { STOP_NONE = 0, STOP_CANCEL, STOP_TIMEOUT, STOP_OUTPUT, STOP_WAITED };

/* When a delayed job goes on, and how long a queued one may wait. */
struct job_time {
    struct due due; /* DELAYED: when it goes on; later: when it has waited too long */
    struct job *job;
    uint64_t delay_usec, at_usec; /* as submitted; 0: none */
    uint64_t wait_usec;           /* longest time in the queue, for each try; 0: any */
    uint64_t until_usec;          /* CLOCK_BOOTTIME: delay_usec after it was accepted; 0: not yet */
    bool by_configuration;        /* wait_usec comes from the configuration */
    bool delayed;                 /* delay_usec and at_usec are over */
    bool waited;                  /* it has waited too long and ends */
};

enum job_flags {
    JOB_DETACHED = 1u << 0,
    JOB_MORE_INPUT = 1u << 1, /* the input is not whole yet */
    JOB_PIPE = 1u << 2,       /* the input is streamed */
    JOB_DELIVERED = 1u << 3,  /* a watch was given some of the output: it must not run again */
    JOB_CONSUMED = 1u << 4,   /* streamed input was consumed: it must not run again */
    JOB_KILLED = 1u << 5,     /* its executor was killed to stop this job */
    JOB_KEPT = 1u << 6,       /* final, in user->kept */
    JOB_TRUNCATED = 1u << 7,  /* some of the output was lost: the job must fail */
};

/* The gates that a job passes, by number. */
enum { GATE_OF_PLUGIN, GATE_OF_FUNCTION, GATE_OF_TAG, GATE_OF_USER = GATE_OF_TAG + JOBS_TAGS, JOB_GATES };
/* job->gate: the low bits are the number plus 1 of the gate at which the job waits. GATE_OUT has a bit for each gate
 * that has let the job on to its domain's queue. */
#define GATE_AT       7u
#define GATE_OUT(i)   (8u << (i))
#define JOB_GATE_BITS 511u
_Static_assert(JOB_GATES < GATE_AT && GATE_OUT(JOB_GATES - 1) <= JOB_GATE_BITS, "all of it");

/* Millions of jobs may wait, so this has only what each waiting job needs. */
struct job {
    struct list link; /* plugin->waiting, a queue, domain->handed, user->kept */
    union {
        uint8_t id[16];
        struct {
            uint64_t time;          /* see id_make() */
            struct hash_link by_id; /* its key is the rest of the id */
        };
    };
    struct domain *domain;
    struct plugin *plugin;
    struct user *user;
    struct directory *directory;
    struct watch *watches;
    struct job_more *more; /* NULL until needed */
    union {
        char *function_name; /* NEW, while the plugin is being loaded: as submitted */
        struct {
            uint32_t slot, generation;
        }; /* RUNNING */
    };
    uint64_t accepted_usec;         /* when it came, CLOCK_MONOTONIC */
    uint32_t args_size, input_size; /* of job_given() */
    uint32_t argc : 13;
    uint32_t function : 7; /* job_function() */
    uint32_t gate : 9;     /* GATE_AT, GATE_OUT, while QUEUED */
    int8_t priority;
    uint8_t attempts;
    uint8_t flags;       /* enum job_flags */
    uint8_t state : 4;   /* enum job_state */
    uint8_t aged : 1;    /* handed over ahead of higher priorities, for its age */
    uint8_t batched : 1; /* given[] begins with a struct batch_item */
    uint8_t bundled : 1; /* it stands for several jobs: job_given() is a struct bundle */
    char given[] __attribute__((aligned(8)));
};

_Static_assert(offsetof(struct job, given) == 120, "with 64 bytes of input, and malloc's own 8, a multiple of 16");

#define JOB_ARGS        8191u /* the most that argc can hold */
#define JOB_NO_FUNCTION 127u  /* while NEW */
/* given[] has up to so many bytes itself; else it has the address of a separate block */
#define JOB_INLINE 4096u

/* For jobs of batches only. */
struct batch_item {
    struct list link; /* in batch->open or batch->doomed; in none once final */
    struct batch *batch;
    uint64_t index; /* position in the order of arrival */
};

/* NULL: it belongs to no batch. */
static inline struct batch_item *job_batch(const struct job *job)
{
    return job->batched ? (struct batch_item *)(uintptr_t)job->given : NULL;
}

static inline char *job_room(const struct job *job)
{
    return (char *)(uintptr_t)job->given + (job->batched ? sizeof(struct batch_item) : 0);
}

/* Jobs of an array that share one entry of queue, slot and table. Code that needs one of them splits the bundle
 * first. */
struct bundle {
    struct list link; /* array->bundles */
    struct job *job;  /* the job of this struct */
    struct array_watch *array;
    uint32_t first, n; /* of the array's items */
    uint64_t bytes;    /* arguments and inputs */
    char items[];      /* struct down_item, as in the ring */
};

/* The arguments, then the inline input. */
static inline char *job_given(const struct job *job)
{
    char *block = job_room(job);

    if (job->args_size + job->input_size > JOB_INLINE)
        memcpy(&block, job_room(job), sizeof(block));
    return block;
}

static inline struct bundle *job_bundle(const struct job *job)
{
    return (struct bundle *)(uintptr_t)job_given(job);
}

static inline uint32_t job_count(const struct job *job)
{
    return job->bundled ? job_bundle(job)->n : 1;
}

/* NULL while NEW. */
static inline struct plugin_function *job_function(const struct job *job)
{
    return job->function == JOB_NO_FUNCTION ? NULL : &job->plugin->functions[job->function];
}

/* f is one of job->plugin's functions. */
static inline void job_set_function(struct job *job, const struct plugin_function *f)
{
    job->function = (unsigned)(f - job->plugin->functions) & JOB_NO_FUNCTION;
}

static inline uint64_t job_received(const struct job *job)
{
    return job->more ? job->more->received : 0;
}

static inline uint64_t job_input_size(const struct job *job)
{
    return job->input_size + (job->more ? job->more->input_size : 0);
}

/* Bytes charged to the user for this job. */
static inline uint64_t job_charged(const struct job *job)
{
    return job->args_size + job->input_size + (job->more ? job->more->charged : 0);
}

/* Why a request, or its job, is refused. */
struct refusal {
    int code;
    uint64_t retry_usec; /* when to try again; 0: that is not known */
    const char *text;    /* perhaps in words */
    char words[JOB_TEXT];
};

/* The user of a request's jobs, their time of arrival and their destination. Looked up once for an array. */
struct job_place {
    struct user *user;
    uint64_t now_usec;
    bool wants_more; /* each job needs more_init() */
    struct domain *domain;
    struct plugin *plugin;            /* NULL: not known yet */
    struct plugin_function *function; /* of job_resolve(); NULL: look it up for each job */
};

/* Returns a zeroed job in no list, with room for what it is given and, if batched, for a struct batch_item. NULL: no
 * memory. */
struct job *job_alloc(struct jobs *jobs, size_t args_size, size_t input_size, bool batched);
void job_drop_given(struct job *job); /* frees the arguments and input; the caller refunds the charges */

#define DOMAIN_MIXED UINT64_MAX

/* One trust domain: an executor and the jobs for it. */

struct domain {
    struct hash_link by_key;
    struct list link; /* jobs->domains */
    struct jobs *jobs;
    uint64_t key;                /* its owner: domain_owner() */
    struct jobs_domain settings; /* the executor's settings at its start */
    char own_name[64];           /* apart: the plugin's name in the configuration; else "" */
    char *own;                   /* apart: the request of its only plugin; NULL: it serves all other plugins */
    struct executor *executor;   /* NULL: none runs */
    struct event *pause_timer;   /* until the next start, or the next try to hand a job over */
    struct event *idle_timer;    /* until an executor without work is ended */
    uint64_t idle_since_usec;
    bool has_ended; /* its last job has ended; cleared by domain_settle() */
    struct plugins plugins;
    struct fair_queue queue;
    struct list handed; /* in the order of their hand-over */
    struct slot_waiter run_slot;
    struct job *slots[RING_SLOTS];
    uint32_t n_handed;
    uint32_t n_awaiting_store; /* jobs that wait for the store before their hand-over */
    struct recall recall;
    uint32_t n_aged;   /* aged jobs among those handed over */
    uint32_t n_deaths; /* successive executors that ended before they were `useful` */
    struct recycling recycling;
    bool distrusted;            /* the executor sent invalid data and is being ended */
    bool unpumped;              /* more can be handed over in the next turn of the loop */
    uint32_t n_unrung;          /* jobs handed over since the executor's doorbell was last rung */
    struct event *bundle_timer; /* while there are bundles */
    bool finishing;             /* the executor was told to end and gets no more jobs */
    char *unconfined;           /* of job_words(): why the executor cannot confine itself; NULL: it can */
    char *start_error;          /* why the last executor could not be started; NULL: it could, or that is not known */
    uint64_t only_function; /* the function of all jobs handed to this executor; 0: none yet; DOMAIN_MIXED: several */
    bool useful;            /* the executor has ended a job, or is suspected because of a plugin */
    struct probe *probe;    /* the executor only tries a file for a reload; else NULL */
    struct health health;
    struct queries queries;
    struct domain_trace trace;
    struct arenas arenas;
    struct lanes lanes;
};

#define JOBS_FREELISTS 25u

/* Makes ids of jobs and batches: a time, and a part that cannot be guessed. */
struct id_maker {
    uint64_t seed[2], n;
};

/* See jobs_realtime(). */
struct realtime {
    uint64_t offset_usec; /* CLOCK_REALTIME minus CLOCK_MONOTONIC at at_usec */
    uint64_t at_usec;     /* CLOCK_MONOTONIC; 0: never looked at */
};

/* Watches that want progress. */
struct progress {
    struct list all;
    struct list due; /* of those, the ones still to be looked at in this round */
    struct event *timer;
};

struct jobs {
    struct jobs_options options;
    struct hash by_id, users, by_key;
    struct hash flows; /* struct flow: of all queues */
    struct gates gates;
    struct bundles bundles;
    struct freelist free_requests;                     /* requests to the store */
    struct freelist free_jobs[JOBS_FREELISTS];         /* jobs, by size in malloc()'s steps of 16 bytes */
    uint64_t rate_nsec;                                /* for all users: see rate_wait() */
    struct retry_after retry_after, bytes_retry_after; /* for limits.jobs; for limits.bytes */
    struct names names;
    struct list domains; /* in the order of polling */
    uint32_t n_taken;    /* completions taken in this turn, at most DOMAINS_TAKE */
    uint64_t output;     /* bytes of output with them */
    struct fair_slots run_slots;
    struct list after_due; /* struct awaited: ended, and the waiting jobs were not told yet */
    struct progress progress;
    struct list moved;            /* jobs of which the slowest reader has read or gone: see output_turn() */
    struct list ends_due;         /* ended jobs that have watches that were not told yet: see ends_turn() */
    struct child_program program; /* the program of the executors */
    struct helper *helper;        /* NULL: executors run under wsd's uid */
    struct cgroups *cgroups;      /* NULL: executors run in wsd's cgroup */
    struct jobs_counters counters;
    struct breakers breakers;
    struct store *store; /* NULL: not open yet */
    struct event *store_event;
    struct hash keys;            /* struct policy by_key */
    struct due_clock boot, wall; /* dues after a span; dues at a time of day */
    struct schedules schedules;
    uint32_t n_selections; /* select.c: selections that walk over by_id */
    struct batches batches;
    struct results results;
    uint64_t n_configured; /* number of times that the configuration was read */
    uint64_t last_number;  /* the last number given to a job on disk */
    struct id_maker ids;
    struct realtime realtime;
    uint32_t next_executor, next_query;
    struct jobs_trace trace;
    struct orphans *orphans; /* NULL: wsd gets no orphans */
    uint32_t max_fd;         /* the highest descriptor that an input may have */
    bool draining;
    bool arriving;     /* many jobs are arriving: hand-over waits until all are there */
    bool has_deferred; /* some job is only on disk, for the next wsd */
    bool untimed;      /* a needed timer could not be set for want of memory */
    bool was_untimed;  /* that was logged */
};

/* job.c */
struct job_more *job_more(struct job *job); /* NULL: no memory */
/* For a NEW job with a plugin that is ready or has failed: accepts or refuses it. Returns the function if identical
 * requests in this array may reuse it (arguments and input only, and no crash on record), else NULL. */
struct plugin_function *job_resolve(struct job *job, const char *function);
void job_accept(struct job *job);                             /* NEW, its function is known, and all checks are done */
void job_refuse(struct job *job, int code, const char *text); /* not accepted yet: refuses and frees it */
/* the same; retry_usec: when to try again */
void job_refuse_until(struct job *job, int code, const char *text, uint64_t retry_usec);
/* for a job in no list: tells its watches this, and frees it */
void job_leave(struct job *job, int code, const char *text);
void watches_refuse(struct job *job, int code, const char *text, uint64_t retry_usec); /* in place of an end */
/* the same for watches that will not ask the next wsd */
void watches_defer(struct job *job, int code, const char *text);
/* final: tells the watches, and keeps the result if it is to be kept */
void job_ended(struct job *job, const struct job_info *info);
void job_keep_end(struct job *job, const struct job_info *info); /* keeps in job->more what was told */
/* Copies the words; NULL for "". Without memory, returns a shared text that says so, which job_words_free() knows. */
char *job_words(const char *words);
char *job_words_free(char *words); /* of job_words(), or NULL; returns NULL */
void job_timer(struct job *job, uint64_t usec);
int job_limit_run(struct job *job); /* applies the configured limit of its run; 0 or -ENOMEM */
/* an accepted job that this user may see; NULL: none */
struct job *job_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* the job is accepted or waits for its plugin, and this user may see it */
bool job_shown_to(const struct job *job, uint32_t uid);
struct job *job_find_shown(struct jobs *jobs, const uint8_t id[16], uint32_t uid); /* finds such a job; NULL: none */
enum job_state job_told_state(const struct job *job); /* a job handed over and not begun is shown as queued */
void job_unmake(struct job *job); /* for a job in no list, with nothing attached: frees its memory and its id */
/* n jobs of this user have ceased to be open */
void jobs_close_accounts(struct jobs *jobs, struct user *user, uint32_t n);
/* Makes the description of the end, which is told and kept. c NULL: the job has not run. */
void job_describe_end(struct job *job, int exit, const char *error, const struct front_completion *c,
                      char worker[static 24], struct job_info *ret);
void job_enqueue(struct job *job); /* its input is complete. May end and free the job */
/* Ends a job: from any state but NEW that is not final; the job is in no list and no slot. c may be NULL. May free the
 * job. */
void job_finish(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c);
bool job_final(const struct job *job);
struct log_about job_about(const struct job *job); /* for log_event(); lives as long as the job */
void job_free(struct job *job);
void job_stop(struct job *job, enum job_stop why);
const char *job_time_words(const struct job *job); /* for a job that ran out of time */
void job_arm(struct job *job);                     /* it was handed over: starts its timeout */
void jobs_rearm(struct jobs *jobs);                /* sets the timers again that found no memory */
#define PROGRESS_USEC  100000u                     /* between two looks at the progress of followed jobs */
#define PROGRESS_LOOKS 4096u                       /* looks in one turn of the loop, at most */
#define ENDS_A_TURN    128u                        /* watches told of an end in one turn of the loop */
/* final: tells the watches that have all output, in ends_turn(); frees the job if nothing needs it */
void job_settle(struct job *job);
void ends_turn(struct jobs *jobs); /* once a turn of the loop */
/* the same, where only this watch can have got all of it; NULL: none has */
void job_settle_one(struct job *job, struct watch *w);
void job_describe(const struct job *job, struct job_info *ret);
