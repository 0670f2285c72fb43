/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h: a job, from its admission to its final state, and those who follow it. Everything here is [loop]. The rest of
 * the folder includes this; above it, jobs.h is what there is.
 */
#pragma once

#include <endian.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/brief.h"
#include "base/buffer.h"
#include "base/freelist.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "jobs/breaker.h"
#include "jobs/due.h"
#include "jobs/health.h"
#include "jobs/jobs.h"
#include "jobs/recall.h"
#include "jobs/retry-after.h"
#include "supervisor/executor.h"
#include "supervisor/helper.h"
#include "supervisor/orphans.h"

struct batch;
struct store_row;

#define JOB_TEXT           256u
#define JOB_ID_FORMAT      "%016llx%016llx" /* for the log */
#define JOB_ID_ARGS(id)    (unsigned long long)job_id_half(id), (unsigned long long)job_id_half((id) + 8)
#define JOBS_KEPT_PER_USER 10000u
#define TRACE_ENDED        16u /* executors that ended while they were traced, whose numbers are told */
#define WSD_STATUS_LAST    63  /* WSD_STATUS_MAX of <wsd/plugin.h>: what a job ends with when it is wsd that says no */

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
    struct list kept; /* jobs in a final state whose result is kept, oldest first */
    uint32_t n_kept;
    uint32_t n_fds;       /* descriptors of inputs */
    uint32_t n_schedules; /* but for those of the configuration */
    uint32_t n_batches;   /* that are known by their id */
    struct list stored;   /* struct policy: durable jobs that have ended and expire, the next one first */
    uint32_t n_stored;
    uint64_t store_bytes; /* of all his durable jobs, on disk */
    uint32_t n_direct;    /* calls that his direct lanes may have under way */
    uint64_t n_bytes;     /* arguments, inputs and kept results */
    uint32_t n_running;   /* jobs that are handed over */
    uint64_t placed;      /* see jobs.n_placed: of the last one that was */
    uint64_t rate_nsec;   /* see rate_wait() */
    struct gate *gate;    /* where those wait that are above running_per_user; NULL: none does */
    uint64_t n_selected;  /* ids that his selections hold */
    struct retry_after retry_after, bytes_retry_after; /* of jobs_per_user, of bytes_per_user */
    struct jobs_limits *own_limits;                    /* instead of everybody's; NULL: none */
};

/* A path that many jobs of one connection share. */
struct directory {
    uint32_t n_refs;
    char path[];
};

struct plugin_function {
    char *name, *help;
    uint64_t flags;
    uint32_t index;    /* in the plugin's table, or RING_NONE where a newer file has it no more */
    uint64_t innocent; /* job-breaker.c: not in quarantine while it has had so many */
    /* job_resolve(): jobs->n_configured, where a job of anybody's with nothing but arguments and input needs no more
     * look */
    uint64_t plain;
    /* bundle.c: how long the last jobs took, and what they wrote at most (bytes, in 1/64) */
    struct brief brief;
    uint32_t output;
};

enum plugin_state { PLUGIN_UNKNOWN, PLUGIN_LOADING, PLUGIN_READY, PLUGIN_FAILED };

/* A plugin as one domain's executor has it. */
struct plugin {
    struct list link; /* domain->plugins */
    struct domain *domain;
    uint32_t number; /* the same in every life of the executor */
    enum plugin_state state;
    bool stale; /* the file has changed: new jobs get a newer entry */
    /* only questions have asked for it so far: it gives way first, and no executor loads it ahead of time */
    bool looked;
    uint64_t used; /* domain->n_used at its last use */
    char *request; /* as submitted: name or path */
    char *title;   /* its own name, as a wsd before this one had learnt it; NULL */
    char *name, *version, *help, *path;
    char *build;                  /* build id of the file, "" */
    uint64_t digest;              /* of the file */
    struct plugin_reload *reload; /* it is being tried: jobs do not find it; NULL */
    struct plugin_function *functions;
    uint32_t n_functions, n_announced;
    bool unread;       /* LOADING: some of what the executor said of it found no memory */
    uint32_t n_jobs;   /* that point here */
    uint64_t innocent; /* as that of a function */
    uint8_t in_next;   /* in the standby's executor: 1 being loaded, 2 there */
    bool settling;     /* those that waited are being told: it stays */
    uint64_t stamp[4]; /* device, inode, size, time of change of the file */
    int error;         /* positive errno of a load that failed */
    char *error_text;
    uint64_t load_order;    /* LOADING: the executor takes them one after the other */
    uint32_t n_load_deaths; /* executors that died while it was being loaded, in a row */
    uint64_t retry_usec;    /* CLOCK_MONOTONIC: not tried again before */
    uint64_t checked_usec;  /* when the file was last looked at */
    struct list waiting;    /* jobs (NEW) and plugin queries that wait for the load */
    struct list queries;
    struct event *timer; /* a load that takes too long */
};

/* What only some jobs need. */
struct job_more {
    struct job *job;     /* whose this is */
    struct event *timer; /* deadline, then grace, then expiry of a kept result */
    int input_fd;        /* memfd, or our end of the pipe */
    int pipe_fd;         /* the executor's end */
    struct event *pipe_event;
    /* input that came before the function was known, that the pipe did not take, or that is gathered here */
    struct buffer early;
    struct buffer output; /* the last bytes of what was received: not yet given to every watcher, or kept */
    uint64_t received;    /* bytes of output so far */
    uint64_t charged;     /* to the user, beyond what the job was submitted with */
    uint64_t input_size;  /* beyond what came inline: in input_fd, or on disk */
    uint64_t input_at;    /* by_file: where it begins */
    struct list held;     /* pieces still in the executor's memory */
    struct list moved;    /* jobs->moved */
    struct list ends_due; /* jobs->ends_due */
    struct watch *untold; /* the first that does not know of the end yet; the next ones do not, either */
    uint32_t held_chunks;
    char *error, *status, *backtrace;
    struct awaiting *awaiting; /* it runs after others (after.h); NULL */
    struct awaited *awaited;   /* others run after it; NULL */
    char *tags;                /* with commas between; NULL: none */
    struct arena_use *arena;   /* its input or output lies in one; NULL */
    struct policy *policy;     /* durable, with a key, or with retries (policy.h); NULL */
    struct job_time *time;     /* it is not to go on at once, or may not wait for long; NULL */
    char *limit;               /* timeout_usec is not the submitter's: whose */
    uint64_t timeout_usec, queued_usec, run_usec, cpu_usec;
    uint64_t done, total;
    char worker[24];
    int exit;
    uint8_t n_fds; /* of the input, counted for the user */
    uint8_t stop;  /* enum job_stop */
    bool input_last, input_broken;
    bool unkept;    /* made behind the end, of which it knows nothing */
    bool no_retry;  /* it was cancelled when its answer was there already: that is its end */
    uint8_t sealed; /* enum job_stop: it was to be stopped then, and the answer has the time of a grace to come */
    /* JOB_TRUNCATED: -ENOMEM; -EDQUOT: for what all users have here together; or for the limits of the job and its
     * user */
    int lost;
    bool by_file; /* input_fd is a file of the submitter's, that others may change */
};

enum job_stop { STOP_NONE = 0, STOP_CANCEL, STOP_TIMEOUT, STOP_OUTPUT, STOP_WAITED };

/* When a job goes on, and how long it may wait then. */
struct job_time {
    struct due due; /* DELAYED: until it goes on; after that: until it has waited too long */
    struct job *job;
    uint64_t delay_usec, at_usec; /* the submitter's; 0: none */
    uint64_t wait_usec;           /* the longest time in the queue, of each try; 0: any */
    uint64_t until_usec;          /* CLOCK_BOOTTIME: delay_usec after it was accepted; 0: not yet */
    bool by_configuration;        /* wait_usec is not the submitter's */
    bool delayed;                 /* delay_usec and at_usec have had their effect */
    bool waited;                  /* it has waited too long, and ends */
};

enum job_flags {
    JOB_DETACHED = 1u << 0,
    JOB_MORE_INPUT = 1u << 1, /* the input is not whole yet */
    JOB_PIPE = 1u << 2,       /* the input is streamed */
    JOB_DELIVERED = 1u << 3,  /* a watcher has had some of the output: not to be run again */
    JOB_CONSUMED = 1u << 4,   /* streamed input has gone: not to be run again */
    JOB_KILLED = 1u << 5,     /* its executor was killed for its sake */
    JOB_KEPT = 1u << 6,       /* final, in user->kept */
    JOB_TRUNCATED = 1u << 7,  /* some of the output could not be kept: it must fail */
};

/* The gates on a job's way, by number. */
enum { GATE_OF_PLUGIN, GATE_OF_FUNCTION, GATE_OF_TAG, GATE_OF_USER = GATE_OF_TAG + JOBS_TAGS, JOB_GATES };
/* job->gate: at which one it waits, that one's number plus 1; and a bit for each from which it was let go on to its
 * domain's queue. */
#define GATE_AT       7u
#define GATE_OUT(i)   (8u << (i))
#define JOB_GATE_BITS 511u
_Static_assert(JOB_GATES < GATE_AT && GATE_OUT(JOB_GATES - 1) <= JOB_GATE_BITS, "all of it");

/* Millions of them may wait: what is here is what each of those needs. */
struct job {
    struct list link; /* plugin->waiting, a queue, domain->handed, user->kept */
    union {
        uint8_t id[16];
        struct {
            uint64_t time;          /* see id_make() */
            struct hash_link by_id; /* whose key is the rest of the id */
        };
    };
    struct domain *domain;
    struct plugin *plugin;
    struct user *user;
    struct directory *directory;
    struct watch *watches;
    struct job_more *more; /* NULL until needed */
    union {
        char *function_name; /* NEW, while the plugin is loaded: as submitted */
        struct {
            uint32_t slot, generation;
        }; /* RUNNING */
    };
    uint64_t accepted_usec;         /* CLOCK_MONOTONIC: when it came */
    uint32_t args_size, input_size; /* of job_given() */
    uint32_t argc : 13;
    uint32_t function : 7; /* job_function() */
    uint32_t gate : 9;     /* GATE_AT, GATE_OUT, while QUEUED */
    int8_t priority;
    uint8_t attempts;
    uint8_t flags;       /* enum job_flags */
    uint8_t state : 4;   /* enum job_state */
    uint8_t aged : 1;    /* handed over out of its priority's turn */
    uint8_t batched : 1; /* given[] begins with a struct batch_item */
    uint8_t bundled : 1; /* it is many: job_given() is a struct bundle */
    char given[] __attribute__((aligned(8)));
};

_Static_assert(offsetof(struct job, given) == 120, "with 64 bytes of input, and malloc's own 8, a multiple of 16");

#define JOB_ARGS        8191u /* as many fit */
#define JOB_NO_FUNCTION 127u  /* while NEW */
/* as much is in the job itself; what is larger has a block of its own, whose address is there */
#define JOB_INLINE 4096u

/* What only jobs of batches have. */
struct batch_item {
    struct list link; /* batch->open, or doomed; in none when it is final */
    struct batch *batch;
    uint64_t index; /* in the order in which they came */
};

/* NULL: it belongs to none. */
static inline struct batch_item *job_batch(const struct job *job)
{
    return job->batched ? (struct batch_item *)(uintptr_t)job->given : NULL;
}

static inline char *job_room(const struct job *job)
{
    return (char *)(uintptr_t)job->given + (job->batched ? sizeof(struct batch_item) : 0);
}

/* Jobs of an array that are one entry of queue, slot and table, as long as nobody asks for one of them. */
struct bundle {
    struct list link; /* array->bundles */
    struct job *job;  /* whose this is */
    struct array_watch *array;
    uint32_t first, n; /* of its items */
    uint64_t bytes;    /* arguments and inputs */
    char items[];      /* as in the ring: struct down_item */
};

/* Arguments, then inline input. */
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

/* One of job->plugin. */
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

/* To its user, by all that it has. */
static inline uint64_t job_charged(const struct job *job)
{
    return job->args_size + job->input_size + (job->more ? job->more->charged : 0);
}

/* Whose jobs of a request are, when they came, and where they go; of an array it is looked up once. */
struct job_place {
    struct user *user;
    uint64_t now_usec;
    bool wants_more; /* they need what more_init() gives them */
    struct domain *domain;
    struct plugin *plugin;            /* NULL: not known yet */
    struct plugin_function *function; /* see job_resolve(); NULL: each one is looked up */
};

/* Zeroed, in no list, with room for what it is given, and as an item of a batch. NULL: no memory. */
struct job *job_alloc(struct jobs *jobs, size_t args_size, size_t input_size, bool batched);
void job_drop_given(struct job *job);               /* there is none any more; charges are the caller's */
uint64_t job_submitted_usec(const struct job *job); /* CLOCK_REALTIME */

#define PRIORITIES 201

/* The jobs of one user at one priority that wait in one queue. */
struct lane {
    struct list link; /* queue->lists, while it has jobs */
    struct list jobs;
    struct user *user; /* NULL: nobody's */
};

struct queue {
    struct list lists[PRIORITIES];        /* of lanes: whose turn it is first */
    struct lane lanes[PRIORITIES];        /* of whoever is the only one there */
    uint64_t map[(PRIORITIES + 63) / 64]; /* which lists are not empty; bit 0 is the highest priority */
    uint32_t first;                       /* of these; PRIORITIES: they all are */
    struct hash *others;                  /* lanes of further users, of all queues */
    uint64_t n, *n_all;                   /* jobs here, and in all queues */
    uint32_t turns;                       /* so far, modulo AGEING_TURNS */
    uint32_t aged;                        /* the list from which those that have waited are looked for */
};

#define DOMAIN_MIXED UINT64_MAX

/* One trust domain: an executor and what waits for it. */

struct domain {
    struct hash_link by_key;
    struct list link; /* jobs->domains */
    struct jobs *jobs;
    uint64_t key;                /* whose it is: domain_owner() */
    struct jobs_domain settings; /* of the executor, when it was started */
    char own_name[64];           /* of the plugin that it is for, as the configuration knows it; "" */
    char *own;                   /* the request of the one plugin that it is for; NULL: all others */
    struct executor *executor;   /* NULL: none runs */
    struct event *pause_timer;   /* before the next start, or the next try to hand a job over */
    struct event *idle_timer;    /* before an executor without work is ended */
    uint64_t idle_since_usec;
    bool has_ended; /* the last job that it had; until domain_settle() */
    struct list plugins;
    uint64_t n_used;  /* plugins.c: counts uses */
    uint64_t n_loads; /* sent so far */
    struct queue queue;
    struct list handed;  /* in order */
    struct list waiting; /* jobs->waiting */
    uint64_t placed;     /* see jobs.n_placed: of the last job that was handed over */
    bool has_turn;       /* one of its jobs may be handed over, before what else waits for a run slot */
    struct job *slots[RING_SLOTS];
    uint32_t n_handed;
    uint32_t n_aside; /* jobs that are asked for at the store before they are handed over */
    struct recall recall;
    uint32_t n_aged;            /* of those handed */
    uint32_t n_deaths;          /* in a row, of executors that were of no use */
    bool spoilt;                /* jobs have left the executor in a state that later ones should not have (recycle.c) */
    bool starved;               /* it could not load a plugin for that: the next one loads what is waited for */
    uint64_t started_usec;      /* the executor, or the one that is to follow a spoilt one */
    bool distrusted;            /* the executor told lies and is being ended */
    bool unpumped;              /* more may be handed over, in the next turn of the loop */
    uint32_t n_unrung;          /* jobs that were handed over since the executor's doorbell was rung */
    struct event *bundle_timer; /* while there are bundles */
    bool finishing;             /* the executor was told to end: nothing goes to it any more */
    char *unsafe;               /* the executor cannot confine itself: why; NULL */
    char *failed;               /* the last executor could not be started: why; NULL: it could, or that is not known */
    uint64_t alone; /* what was handed to this executor: of which function, 0 nothing, DOMAIN_MIXED of several */
    bool useful;    /* the executor has brought something to its end: a job, or the suspicion of a plugin */
    struct domain *successor;                      /* the executor only finishes what it has: whose it was */
    struct domain *standby;                        /* where the next executor gets ready */
    struct domain *standby_of;                     /* it is that: of whom */
    uint32_t n_expected;                           /* plugins that it still has to load */
    struct probe *probe;                           /* the executor only tries a file for a reload; NULL */
    uint64_t n_ended, resident_first, looked_usec; /* of this executor: jobs, bytes, and when those were looked at */
    struct health health;
    struct list asks; /* parts of questions that the executor has not answered, the oldest first */
    uint32_t n_asks;
    uint32_t traced, traced_by;             /* number of the trace, 0: none; uid */
    uint32_t n_trace_ended;                 /* executors that ended while they were traced */
    uint32_t trace_ended[TRACE_ENDED];      /* the numbers of the first of them */
    uint32_t n_reports;                     /* of a trace, not read yet */
    struct list arenas;                     /* that the executor has (arena.c), the one that was used last at the end */
    uint64_t arenas_used[RING_ARENAS / 64]; /* their places there */
    uint32_t n_arenas_shown;                /* so far: no two of one executor have the same number */
    struct list directs;                    /* direct lanes into the executor */
    struct event *direct_timer;             /* while something runs in one of them */
    bool direct_armed;
    uint64_t direct_waited_usec; /* when a client said last that it waits */
};

#define JOBS_FREELISTS 25u

/* names.c: names of plugins, each with its NUL. */
struct names {
    char *names;
    size_t size;
    uint64_t read_usec;     /* 0: never */
    int fd;                 /* inotify, where it is watching */
    bool watching, watched; /* watched: all directories are */
};

struct jobs {
    struct jobs_options options;
    struct hash by_id, users, by_key, lanes, gates;
    struct hash bundles; /* by the id of their first job */
    uint32_t n_bundled;  /* jobs in them */
    struct list user_gates;
    struct freelist free_requests;                     /* to the store */
    struct freelist free_jobs[JOBS_FREELISTS];         /* of jobs, by their size in malloc()'s steps of 16 bytes */
    uint64_t rate_nsec;                                /* of all users: see rate_wait() */
    struct retry_after retry_after, bytes_retry_after; /* of limits.jobs, of limits.bytes */
    struct names names;
    struct list domains; /* the one that is polled first is the first */
    uint32_t n_taken;    /* completions in this turn of the loop, of DOMAINS_TAKE */
    struct list waiting; /* domains, for a run slot (run-slots.c) */
    uint64_t n_running;  /* jobs that are handed over */
    uint64_t n_placed;   /* so many were, while there was a limit; and modulo AGEING_TURNS */
    uint32_t run_slot_turns;
    struct list after_due;    /* struct awaited: have ended, and those that wait do not know yet */
    struct list progress;     /* watches that want progress, */
    struct list progress_due; /* and those that are looked at in this round */
    struct list moved;        /* jobs whose slowest reader has read or gone: output_turn() */
    struct list ends_due;     /* jobs that have ended, and some of their watches do not know yet: ends_turn() */
    struct event *progress_timer;
    struct child_program program; /* what executors are started with */
    struct helper *helper;        /* NULL: they run under wsd's uid */
    struct cgroups *cgroups;      /* NULL: they run in wsd's */
    struct jobs_counters counters;
    struct breakers breakers;
    struct store *store; /* NULL: not there yet */
    struct event *store_event;
    struct hash keys;            /* struct policy by_key */
    struct due_clock boot, wall; /* what waits for a span, and for a time of day */
    struct hash schedules;
    uint32_t n_selections;      /* select.c: that walk over by_id */
    struct hash batches;        /* by the last half of their ids */
    struct list batches_due;    /* something is to be done for them */
    struct list batches_kept;   /* have ended, the oldest end first */
    struct list batch_progress; /* batch watches that want progress */
    uint64_t last_schedule;     /* number on disk */
    struct list stored, dead;   /* policies of durable jobs that have ended; the first one goes first */
    struct event *expiry_timer, *save_timer;
    uint64_t n_configured;     /* how often the configuration was read */
    uint64_t last_number;      /* of a job on disk */
    uint64_t seed[2], n_ids;   /* of ids */
    uint64_t realtime_usec;    /* CLOCK_REALTIME less CLOCK_MONOTONIC, as it was */
    uint64_t realtime_at_usec; /* by the latter; 0: never looked at. See jobs_realtime(). */
    uint32_t next_executor, next_ask, next_trace;
    uint32_t traced, traced_by; /* all domains, also those to come: number of the trace, 0: none; uid */
    struct orphans *orphans;    /* NULL: wsd gets none */
    uint32_t max_fd;            /* the highest descriptor that an input may have */
    bool draining;
    bool drained, paused; /* by an administrator: no new jobs; none is handed over */
    bool gates_due;       /* something may go on from a gate */
    bool arriving;        /* many at once: they are handed over when they are all there */
    bool run_slots_due;   /* there may be a run slot for one that waits */
    bool has_deferred;    /* some job is on disk only, for the next wsd */
    bool untimed;         /* something has no timer that should have one: there was no memory */
    bool was_untimed;     /* that was said */
};

/* job.c */
struct job_more *job_more(struct job *job); /* NULL: no memory */
/* NEW, its plugin is ready or failed: accepts or refuses it. Its function, where the same would be found for each job
 * that is asked for like this one in the same breath, as long as nothing becomes known against it: it has nothing but
 * arguments and input. NULL: not so. */
struct plugin_function *job_resolve(struct job *job, const char *function);
void job_accept(struct job *job); /* NEW, its function is known, and nothing is against it */
void job_refuse(struct job *job, int code, const char *text); /* not accepted yet: ends and frees it */
/* worth another try after this */
void job_refuse_until(struct job *job, int code, const char *text, uint64_t retry_usec);
/* in no list: those who follow are told this, and it is freed */
void job_leave(struct job *job, int code, const char *text);
void watches_refuse(struct job *job, int code, const char *text, uint64_t retry_usec); /* in the place of an end */
void watches_defer(struct job *job, int code, const char *text); /* the same for those that do not ask the next wsd */
void job_ended(struct job *job, const struct job_info *info); /* final: tells it, and keeps it where it is to be kept */
void job_keep_end(struct job *job, const struct job_info *info); /* what was told, in job->more */
/* A copy of these words, or NULL for "". Where there is no memory: words that say so, which are not those of
 * anybody. */
char *job_words(const char *words);
char *job_words_free(char *words); /* of job_words(), or NULL; returns NULL */
void job_timer(struct job *job, uint64_t usec);
int job_limit_run(struct job *job); /* as the configuration says; 0 or -ENOMEM */
/* accepted, and this user may see it; NULL */
struct job *job_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* accepted, or waiting for its plugin, and this user may see it */
bool job_shown_to(const struct job *job, uint32_t uid);
struct job *job_find_shown(struct jobs *jobs, const uint8_t id[16], uint32_t uid); /* of these; NULL */
enum job_state job_told_state(const struct job *job); /* handed over but not begun is queued to the world */
int job_name(struct jobs *jobs, struct job *job);     /* puts it under its id; 0 or -ENOMEM */
void job_unmake(struct job *job); /* in no list, nothing hangs on it any more: its memory, and its name */
void jobs_close_accounts(struct jobs *jobs, struct user *user, uint32_t n); /* so many of his are open no more */
void job_add_watch(struct job *job, struct watch *w);
void job_remove_watch(struct watch *w); /* at a cost that does not grow with the job's other watches */
/* The end as it is told, and kept where somebody will ask. c NULL: it has not run. */
void job_describe_end(struct job *job, int exit, const char *error, const struct front_completion *c,
                      char worker[static 24], struct job_info *ret);
void job_enqueue(struct job *job); /* its input is there. It may end, and be gone */
/* From any state but NEW that is not final, in no list and no slot any more; c may be NULL. May free the job. */
void job_finish(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c);
bool job_final(const struct job *job);
struct log_about job_about(const struct job *job); /* for log_event(); lives as long as the job */
void job_free(struct job *job);
void job_stop(struct job *job, enum job_stop why);
const char *job_time_words(const struct job *job); /* for one whose time was up */
void job_arm(struct job *job);                     /* it was handed over: its time may run */
/* Sets one of the timers that jobs_rearm() knows, and sees to it that it is called where there was no memory for
 * that. */
void jobs_timer(struct jobs *jobs, struct event *timer, uint64_t usec);
void jobs_rearm(struct jobs *jobs); /* tries again the timers that there was no memory for, by what each is there for */
#define PROGRESS_USEC  100000u      /* between two looks at the progress of followed jobs */
#define PROGRESS_LOOKS 4096u        /* at most, in one turn of the loop */
#define ENDS_A_TURN    128u         /* watches that are told of an end before the loop looks at something else */
/* final: tells the watches that have all output, in ends_turn(); frees what nobody wants */
void job_settle(struct job *job);
void ends_turn(struct jobs *jobs); /* once a turn of the loop */
/* the same, where only this watch may have got all of it; NULL: none has */
void job_settle_one(struct job *job, struct watch *w);
void watch_late(struct watch *w, bool late); /* counted while its job has ended without it */
void job_describe(const struct job *job, struct job_info *ret);
