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
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/freelist.h"
#include "jobs/due.h"
#include "jobs/health.h"
#include "jobs/jobs.h"
#include "jobs/breaker.h"
#include "jobs/recall.h"
#include "jobs/retry-after.h"
#include "supervisor/executor.h"
#include "supervisor/helper.h"
#include "supervisor/orphans.h"

struct batch;
struct store_row;

#define JOB_TEXT       256u
#define JOB_ID_FORMAT  "%016llx%016llx" /* for the log */
#define JOB_ID_ARGS(id) (unsigned long long)job_id_half(id), (unsigned long long)job_id_half((id) + 8)
#define JOBS_KEPT_PER_USER 10000u
#define TRACE_ENDED    16u /* executors that ended while they were traced, whose numbers are told */
#define WSD_STATUS_LAST 63 /* WSD_STATUS_MAX of <wsd/plugin.h>: what a job ends with when it is wsd that says no */

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
    uint32_t n_jobs;     /* not in a final state */
    struct list kept;    /* jobs in a final state whose result is kept, oldest first */
    uint32_t n_kept;
    uint32_t n_fds;      /* descriptors of inputs */
    uint32_t n_schedules; /* but for those of the configuration */
    uint32_t n_batches;   /* that are known by their id */
    struct list stored;   /* struct policy: durable jobs that have ended and expire, the next one first */
    uint32_t n_stored;
    uint64_t store_bytes; /* of all his durable jobs, on disk */
    uint32_t n_direct;   /* calls that his direct lanes may have under way */
    uint64_t n_bytes;    /* arguments, inputs and kept results */
    uint32_t n_running;  /* jobs that are handed over */
    uint64_t placed;     /* see jobs.n_placed: of the last one that was */
    uint64_t rate_nsec;  /* see rate_wait() */
    struct gate *gate;   /* where those wait that are above running_per_user; NULL: none does */
    uint64_t n_selected; /* ids that his selections hold */
    struct retry_after retry_after, bytes_retry_after;   /* of jobs_per_user, of bytes_per_user */
    struct jobs_limits *own_limits; /* instead of everybody's; NULL: none */
};

/* A path that many jobs of one connection share. */
struct directory {
    uint32_t n_refs;
    char path[];
};

struct plugin_function {
    char *name, *help;
    uint64_t flags;
    uint32_t index; /* in the plugin's table, or RING_NONE where a newer file has it no more */
    uint64_t innocent; /* job-breaker.c: not in quarantine while it has had so many */
    uint64_t plain;    /* job_resolve(): jobs->n_configured, where a job of anybody's with nothing but arguments and input needs no more look */
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
    bool looked; /* only questions have asked for it so far: it gives way first, and no executor loads it ahead of time */
    uint64_t used; /* domain->n_used at its last use */
    char *request; /* as submitted: name or path */
    char *title;   /* its own name, as a wsd before this one had learnt it; NULL */
    char *name, *version, *help, *path;
    char *build;     /* build id of the file, "" */
    uint64_t digest; /* of the file */
    struct plugin_reload *reload; /* it is being tried: jobs do not find it; NULL */
    struct plugin_function *functions;
    uint32_t n_functions, n_announced;
    bool unread; /* LOADING: some of what the executor said of it found no memory */
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
    struct list waiting; /* jobs (NEW) and plugin queries that wait for the load */
    struct list queries;
    struct event *timer; /* a load that takes too long */
};

/* What only some jobs need. */
struct job_more {
    struct job *job; /* whose this is */
    struct event *timer; /* deadline, then grace, then expiry of a kept result */
    int input_fd;        /* memfd, or our end of the pipe */
    int pipe_fd;         /* the executor's end */
    struct event *pipe_event;
    struct buffer early; /* input that came before the function was known, that the pipe did not take, or that is gathered here */
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
    struct arena_use *arena; /* its input or output lies in one; NULL */
    struct policy *policy; /* durable, with a key, or with retries (policy.h); NULL */
    struct job_time *time;   /* it is not to go on at once, or may not wait for long; NULL */
    char *limit; /* timeout_usec is not the submitter's: whose */
    uint64_t timeout_usec, queued_usec, run_usec, cpu_usec;
    uint64_t done, total;
    char worker[24];
    int exit;
    uint8_t n_fds; /* of the input, counted for the user */
    uint8_t stop;  /* enum job_stop */
    bool input_last, input_broken;
    bool unkept;   /* made behind the end, of which it knows nothing */
    bool no_retry; /* it was cancelled when its answer was there already: that is its end */
    uint8_t sealed; /* enum job_stop: it was to be stopped then, and the answer has the time of a grace to come */
    int lost; /* JOB_TRUNCATED: -ENOMEM; -EDQUOT: for what all users have here together; or for the limits of the job and its user */
    bool by_file;  /* input_fd is a file of the submitter's, that others may change */
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
/* job->gate: at which one it waits, that one's number plus 1; and a bit for each from which it was let go on to its domain's
 * queue. */
#define GATE_AT     7u
#define GATE_OUT(i) (8u << (i))
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
        char *function_name;                    /* NEW, while the plugin is loaded: as submitted */
        struct { uint32_t slot, generation; };  /* RUNNING */
    };
    uint64_t accepted_usec; /* CLOCK_MONOTONIC: when it came */
    uint32_t args_size, input_size; /* of job_given() */
    uint32_t argc : 13;
    uint32_t function : 7; /* job_function() */
    uint32_t gate : 9;     /* GATE_AT, GATE_OUT, while QUEUED */
    int8_t priority;
    uint8_t attempts;
    uint8_t flags;    /* enum job_flags */
    uint8_t state : 4; /* enum job_state */
    uint8_t aged : 1;  /* handed over out of its priority's turn */
    uint8_t batched : 1; /* given[] begins with a struct batch_item */
    uint8_t bundled : 1; /* it is many: job_given() is a struct bundle */
    char given[] __attribute__((aligned(8)));
};

_Static_assert(offsetof(struct job, given) == 120, "with 64 bytes of input, and malloc's own 8, a multiple of 16");

#define JOB_ARGS        8191u      /* as many fit */
#define JOB_NO_FUNCTION 127u       /* while NEW */
#define JOB_INLINE      4096u      /* as much is in the job itself; what is larger has a block of its own, whose address is there */

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
    struct plugin *plugin; /* NULL: not known yet */
    struct plugin_function *function; /* see job_resolve(); NULL: each one is looked up */
};

/* Zeroed, in no list, with room for what it is given, and as an item of a batch. NULL: no memory. */
struct job *job_alloc(struct jobs *jobs, size_t args_size, size_t input_size, bool batched);
void job_drop_given(struct job *job); /* there is none any more; charges are the caller's */
uint64_t job_submitted_usec(const struct job *job); /* CLOCK_REALTIME */

#define PRIORITIES 201

/* The jobs of one user at one priority that wait in one queue. */
struct lane {
    struct list link; /* queue->lists, while it has jobs */
    struct list jobs;
    struct user *user; /* NULL: nobody's */
};

struct queue {
    struct list lists[PRIORITIES]; /* of lanes: whose turn it is first */
    struct lane lanes[PRIORITIES]; /* of whoever is the only one there */
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
    uint64_t key; /* whose it is: domain_owner() */
    struct jobs_domain settings; /* of the executor, when it was started */
    char own_name[64];           /* of the plugin that it is for, as the configuration knows it; "" */
    char *own;    /* the request of the one plugin that it is for; NULL: all others */
    struct executor *executor; /* NULL: none runs */
    struct event *pause_timer; /* before the next start, or the next try to hand a job over */
    struct event *idle_timer;  /* before an executor without work is ended */
    uint64_t idle_since_usec;
    bool has_ended; /* the last job that it had; until domain_settle() */
    struct list plugins;
    uint64_t n_used; /* plugins.c: counts uses */
    uint64_t n_loads; /* sent so far */
    struct queue queue;
    struct list handed; /* in order */
    struct list waiting; /* jobs->waiting */
    uint64_t placed;     /* see jobs.n_placed: of the last job that was handed over */
    bool has_turn;       /* one of its jobs may be handed over, before what else waits for a run slot */
    struct job *slots[RING_SLOTS];
    uint32_t n_handed;
    uint32_t n_aside; /* jobs that are asked for at the store before they are handed over */
    struct recall recall;
    uint32_t n_aged;        /* of those handed */
    uint32_t n_deaths; /* in a row, of executors that were of no use */
    bool spoilt;           /* jobs have left the executor in a state that later ones should not have (recycle.c) */
    bool starved;          /* it could not load a plugin for that: the next one loads what is waited for */
    uint64_t started_usec; /* the executor, or the one that is to follow a spoilt one */
    bool distrusted;   /* the executor told lies and is being ended */
    bool unpumped;     /* more may be handed over, in the next turn of the loop */
    uint32_t n_unrung; /* jobs that were handed over since the executor's doorbell was rung */
    struct event *bundle_timer; /* while there are bundles */
    bool finishing;    /* the executor was told to end: nothing goes to it any more */
    char *unsafe;      /* the executor cannot confine itself: why; NULL */
    char *failed;      /* the last executor could not be started: why; NULL: it could, or that is not known */
    uint64_t alone;    /* what was handed to this executor: of which function, 0 nothing, DOMAIN_MIXED of several */
    bool useful;       /* the executor has brought something to its end: a job, or the suspicion of a plugin */
    struct domain *successor;  /* the executor only finishes what it has: whose it was */
    struct domain *standby;    /* where the next executor gets ready */
    struct domain *standby_of; /* it is that: of whom */
    uint32_t n_expected;       /* plugins that it still has to load */
    struct probe *probe;       /* the executor only tries a file for a reload; NULL */
    uint64_t n_ended, resident_first, looked_usec; /* of this executor: jobs, bytes, and when those were looked at */
    struct health health;
    struct list asks;  /* parts of questions that the executor has not answered, the oldest first */
    uint32_t n_asks;
    uint32_t traced, traced_by;  /* number of the trace, 0: none; uid */
    uint32_t n_trace_ended;      /* executors that ended while they were traced */
    uint32_t trace_ended[TRACE_ENDED]; /* the numbers of the first of them */
    uint32_t n_reports;          /* of a trace, not read yet */
    struct list arenas; /* that the executor has (arena.c), the one that was used last at the end */
    uint64_t arenas_used[RING_ARENAS / 64]; /* their places there */
    uint32_t n_arenas_shown; /* so far: no two of one executor have the same number */
    struct list directs;         /* direct lanes into the executor */
    struct event *direct_timer;  /* while something runs in one of them */
    bool direct_armed;
    uint64_t direct_waited_usec; /* when a client said last that it waits */
};

#define JOBS_FREELISTS 25u

/* names.c: names of plugins, each with its NUL. */
struct names {
    char *names;
    size_t size;
    uint64_t read_usec; /* 0: never */
    int fd;             /* inotify, where it is watching */
    bool watching, watched; /* watched: all directories are */
};

struct jobs {
    struct jobs_options options;
    struct hash by_id, users, by_key, lanes, gates;
    struct hash bundles; /* by the id of their first job */
    uint32_t n_bundled;  /* jobs in them */
    struct list user_gates;
    struct freelist free_requests;      /* to the store */
    struct freelist free_jobs[JOBS_FREELISTS]; /* of jobs, by their size in malloc()'s steps of 16 bytes */
    uint64_t rate_nsec; /* of all users: see rate_wait() */
    struct retry_after retry_after, bytes_retry_after; /* of limits.jobs, of limits.bytes */
    struct names names;
    struct list domains; /* the one that is polled first is the first */
    uint32_t n_taken;    /* completions in this turn of the loop, of DOMAINS_TAKE */
    struct list waiting;  /* domains, for a run slot (run-slots.c) */
    uint64_t n_running;   /* jobs that are handed over */
    uint64_t n_placed;    /* so many were, while there was a limit; and modulo AGEING_TURNS */
    uint32_t run_slot_turns;
    struct list after_due; /* struct awaited: have ended, and those that wait do not know yet */
    struct list progress; /* watches that want progress, */
    struct list progress_due; /* and those that are looked at in this round */
    struct list moved;    /* jobs whose slowest reader has read or gone: output_turn() */
    struct list ends_due; /* jobs that have ended, and some of their watches do not know yet: ends_turn() */
    struct event *progress_timer;
    struct child_program program; /* what executors are started with */
    struct helper *helper;        /* NULL: they run under wsd's uid */
    struct cgroups *cgroups;      /* NULL: they run in wsd's */
    struct jobs_counters counters;
    struct breakers breakers;
    struct store *store;         /* NULL: not there yet */
    struct event *store_event;
    struct hash keys;            /* struct policy by_key */
    struct due_clock boot, wall; /* what waits for a span, and for a time of day */
    struct hash schedules;
    uint32_t n_selections; /* select.c: that walk over by_id */
    struct hash batches;         /* by the last half of their ids */
    struct list batches_due;     /* something is to be done for them */
    struct list batches_kept;    /* have ended, the oldest end first */
    struct list batch_progress;  /* batch watches that want progress */
    uint64_t last_schedule;      /* number on disk */
    struct list stored, dead;    /* policies of durable jobs that have ended; the first one goes first */
    struct event *expiry_timer, *save_timer;
    uint64_t n_configured;       /* how often the configuration was read */
    uint64_t last_number;        /* of a job on disk */
    uint64_t seed[2], n_ids;     /* of ids */
    uint64_t realtime_usec;      /* CLOCK_REALTIME less CLOCK_MONOTONIC, as it was */
    uint64_t realtime_at_usec;   /* by the latter; 0: never looked at. See jobs_realtime(). */
    uint32_t next_executor, next_ask, next_trace;
    uint32_t traced, traced_by; /* all domains, also those to come: number of the trace, 0: none; uid */
    struct orphans *orphans; /* NULL: wsd gets none */
    uint32_t max_fd; /* the highest descriptor that an input may have */
    bool draining;
    bool drained, paused; /* by an administrator: no new jobs; none is handed over */
    bool gates_due;       /* something may go on from a gate */
    bool arriving;        /* many at once: they are handed over when they are all there */
    bool run_slots_due;      /* there may be a run slot for one that waits */
    bool has_deferred;      /* some job is on disk only, for the next wsd */
    bool untimed;     /* something has no timer that should have one: there was no memory */
    bool was_untimed; /* that was said */
};

/* state.c: the table of legal moves. Asserts: a wrong move is a programmer's. */
void job_move(struct job *job, enum job_state state);

/* job.c */
struct job_more *job_more(struct job *job); /* NULL: no memory */
/* NEW, its plugin is ready or failed: accepts or refuses it. Its function, where the same would be found for each job that is asked for like
 * this one in the same breath, as long as nothing becomes known against it: it has nothing but arguments and input. NULL: not so. */
struct plugin_function *job_resolve(struct job *job, const char *function);
void job_accept(struct job *job); /* NEW, its function is known, and nothing is against it */
void job_refuse(struct job *job, int code, const char *text); /* not accepted yet: ends and frees it */
void job_refuse_until(struct job *job, int code, const char *text, uint64_t retry_usec); /* worth another try after this */
void job_leave(struct job *job, int code, const char *text);  /* in no list: those who follow are told this, and it is freed */
void watches_refuse(struct job *job, int code, const char *text, uint64_t retry_usec); /* in the place of an end */
void watches_defer(struct job *job, int code, const char *text); /* the same for those that do not ask the next wsd */
void job_ended(struct job *job, const struct job_info *info); /* final: tells it, and keeps it where it is to be kept */
void job_keep_end(struct job *job, const struct job_info *info); /* what was told, in job->more */
/* A copy of these words, or NULL for "". Where there is no memory: words that say so, which are not those of anybody. */
char *job_words(const char *words);
char *job_words_free(char *words); /* of job_words(), or NULL; returns NULL */
void job_timer(struct job *job, uint64_t usec);
int job_limit_run(struct job *job); /* as the configuration says; 0 or -ENOMEM */
struct job *job_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid); /* accepted, and this user may see it; NULL */
bool job_shown_to(const struct job *job, uint32_t uid); /* accepted, or waiting for its plugin, and this user may see it */
struct job *job_find_shown(struct jobs *jobs, const uint8_t id[16], uint32_t uid); /* of these; NULL */
enum job_state job_told_state(const struct job *job); /* handed over but not begun is queued to the world */
int job_name(struct jobs *jobs, struct job *job); /* puts it under its id; 0 or -ENOMEM */
void job_unmake(struct job *job); /* in no list, nothing hangs on it any more: its memory, and its name */
void jobs_close_accounts(struct jobs *jobs, struct user *user, uint32_t n); /* so many of his are open no more */
void job_add_watch(struct job *job, struct watch *w);
void job_remove_watch(struct watch *w); /* at a cost that does not grow with the job's other watches */
/* The end as it is told, and kept where somebody will ask. c NULL: it has not run. */
void job_describe_end(struct job *job, int exit, const char *error, const struct front_completion *c, char worker[static 24],
                      struct job_info *ret);
void job_enqueue(struct job *job); /* its input is there. It may end, and be gone */
/* From any state but NEW that is not final, in no list and no slot any more; c may be NULL. May free the job. */
void job_finish(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c);
bool job_final(const struct job *job);
struct log_about job_about(const struct job *job); /* for log_event(); lives as long as the job */
void job_free(struct job *job);
void job_stop(struct job *job, enum job_stop why);
const char *job_time_words(const struct job *job); /* for one whose time was up */
void job_arm(struct job *job);    /* it was handed over: its time may run */
/* Sets one of the timers that jobs_rearm() knows, and sees to it that it is called where there was no memory for that. */
void jobs_timer(struct jobs *jobs, struct event *timer, uint64_t usec);
void jobs_rearm(struct jobs *jobs); /* tries again the timers that there was no memory for, by what each is there for */
#define PROGRESS_USEC  100000u /* between two looks at the progress of followed jobs */
#define PROGRESS_LOOKS 4096u   /* at most, in one turn of the loop */
#define ENDS_A_TURN 128u /* watches that are told of an end before the loop looks at something else */
void job_settle(struct job *job); /* final: tells the watches that have all output, in ends_turn(); frees what nobody wants */
void ends_turn(struct jobs *jobs); /* once a turn of the loop */
void job_settle_one(struct job *job, struct watch *w); /* the same, where only this watch may have got all of it; NULL: none has */
void watch_late(struct watch *w, bool late); /* counted while its job has ended without it */
void job_describe(const struct job *job, struct job_info *ret);

/* time.c */
static inline struct job_time *job_time(const struct job *job)
{
    return job->more ? job->more->time : NULL;
}
struct job_time *time_make(struct job *job); /* or the one that it has; NULL: no memory */
int time_wanted(struct job *job, const struct job_request *r); /* what its submitter says; 0 or -ENOMEM */
void time_free(struct job *job);
int time_limit_wait(struct job *job); /* as the configuration says; 0 or -ENOMEM */
int time_waits(struct job *job); /* NEW, for its plugin: not longer than it may; 0 or -ENOMEM */
void time_accepted(struct job *job); /* its delay begins, where that has not */
void time_hold(struct job *job, uint64_t due_usec, bool at); /* HELD again after a restart, and then until then (CLOCK_REALTIME) */
/* It is not to go on yet: DELAYED, and comes back to job_enqueue(). */
bool time_delays(struct job *job);
/* It waits for a span, whatever was asked for: has a job_time, is DELAYED or about to be. */
void time_pause(struct job *job, uint64_t usec);
void time_resume(struct job *job, uint64_t due_usec, bool at); /* DELAYED on disk, until then (CLOCK_REALTIME) */
void time_queued(struct job *job, uint64_t waited_usec); /* it waits, and may have waited before a restart */
void time_begun(struct job *job); /* it has an end, or waits no more */
void time_out(struct job *job);   /* in no list: it has waited too long */
uint64_t time_due(const struct job *job); /* CLOCK_REALTIME, for the disk; 0: it is not delayed */

void job_id_of(uint8_t ret[16], const uint8_t first[16], uint32_t i); /* of an array's i-th job, by that of the first */
void id_make(struct jobs *jobs, uint64_t now_usec, uint8_t ret[16]); /* a new one; CLOCK_REALTIME */
/* What it is by CLOCK_REALTIME, at this time of CLOCK_MONOTONIC, which is now. A clock that is set is noticed within REALTIME_USEC. */
uint64_t jobs_realtime(struct jobs *jobs, uint64_t now_usec);

/* batch.c */
const char *batch_refuses(const struct batch_watch *owner); /* nothing is added to it: why; NULL */
void batch_add(struct batch_watch *owner, struct job *job);  /* NEW */
void batch_accepted(struct job *job); /* here and below also where it belongs to none */
void batch_left(struct job *job, int exit); /* it is final, or was refused while NEW */
void batch_forget(struct job *job);   /* it goes */
void batch_divide(struct job *bundle, struct job *job, uint32_t i); /* the i-th of a bundle is there by itself, before the bundle */
const uint8_t *batch_id(const struct job *job); /* NULL: it belongs to none */
/* For after.c. NULL: there is none, or none that this user may see. */
struct batch *batch_find(struct jobs *jobs, const uint8_t id[16], uint32_t uid);
enum job_state batch_state(const struct batch *b); /* a final one when it has ended: that of its first failure, or SUCCEEDED; else RUNNING */
struct awaited **batch_awaited(struct batch *b);   /* what waits for it */
bool batch_is(const struct batch_watch *owner, const struct batch *b);
void batches_turn(struct jobs *jobs); /* once a turn of the loop */
void batches_progress(struct jobs *jobs);
void batches_free(struct jobs *jobs); /* there are no jobs */

/* schedule.c */
int schedule_restore(const struct store_row *row, void *userdata); /* the jobs: one that is on disk; 0 or -ENOMEM */
void schedules_start(struct jobs *jobs); /* all were read */
void schedules_stop(struct jobs *jobs);  /* no more runs */
void schedules_were_set(void *context);  /* the clock was */
void schedules_free(struct jobs *jobs);
void schedule_unanswered(struct schedule *s); /* a request to the store will not be */

/* queue.c */
void queue_init(struct queue *q, struct hash *others, uint64_t *n_all);
void queue_put(struct queue *q, struct job *job, bool front);
void queue_take(struct queue *q, struct job *job);
struct job *queue_first(struct queue *q);
/* Each AGEING_TURNS-th turn: the first job of a lower priority that was accepted before then, these priorities in turn; NULL:
 * there is none, or it is another's turn. */
#define AGEING_TURNS 16u
struct job *queue_aged(struct queue *q, uint64_t before_usec);
struct list *queue_of(struct queue *q, int priority); /* the lanes of that priority */
void queue_turn(struct queue *q, const struct job *job); /* first, and about to be taken: then the next user's turn is */

/* How many of them at once where jobs of higher priorities wait: in a quarter of the workers, or one. */
#define AGED_WORKERS(n) ((n) / 4 + ((n) < 4))

/* gate.c */
bool gate_lets(struct job *job);   /* the first of its domain's queue; false: it waits at a gate now */
void job_unqueue(struct job *job); /* QUEUED: from wherever it waits */
void gate_entered(struct job *job); /* for job_move(): it is handed over, and no longer is */
void gate_left(struct job *job);
bool gate_known(const struct jobs *jobs, const char *plugin, const char *function); /* there is one for either */
void gates_turn(struct jobs *jobs); /* once a turn of the loop */
void gates_free(struct jobs *jobs);

/* run-slots.c */
/* Whether the first of its queue, which could go on, may be handed over; false: the domain waits for its turn. */
bool run_slots_let(struct domain *d);
void run_slots_taken(struct domain *d, struct user *user); /* a job of his was handed over */
void run_slots_left(struct jobs *jobs); /* one is no longer */
/* Whose turn it is, of those that wait; it does no longer. before_usec: who was accepted then has waited for long. NULL: nobody's. */
struct domain *run_slots_next(struct jobs *jobs, uint64_t before_usec);
void run_slots_turn(struct jobs *jobs); /* once a turn of the loop */

/* bundle.c: brief jobs of an array that are one entry of queue, table and slots */
int bundle_init(struct domain *d);
/* The i-th of n jobs of an array, which the request says, and some behind it: how many there are in it now; the request
 * says the next one. 0: it has to be a job of its own. */
uint32_t bundle_take(struct jobs *jobs, struct job_request *r, const struct job_place *place, struct array_watch *w, const uint8_t first_id[16],
                     uint32_t i, uint32_t n);
bool bundle_counts(const struct domain *d, const struct job *job); /* something that counts jobs, or looks at each, is in its way */
/* Has each of them as a job of its own, in its place. Of one that was handed over, what has ended is told so, the one that
 * has its turn keeps the slot, and the others go back to the head of the queue. Where there is no memory for that, all
 * have ended. */
void bundle_split(struct job *job);
void bundle_describe(const struct job *job, struct front_job *ret);
void bundles_split(struct jobs *jobs); /* all: somebody looks at every job */
bool bundles_find(struct jobs *jobs, const uint8_t id[16]); /* splits the one that has this id: true */
void bundles_watch(struct domain *d); /* some were handed over */
/* How long it is expected to take; UINT32_MAX: nobody knows. */
uint32_t bundle_usec(const struct job *job);
/* The executor has nothing but bundles, which together take less than to wake another worker for, and one is awake: it takes them all. */
bool bundles_brief(struct domain *d);
/* The job of a slot that says more than what it was asked for. NULL: a lie, or there was no memory. */
struct job *bundle_alone(struct domain *d, uint32_t slot);
/* The slot is DONE: the bundle, where all have ended with nothing but output that is taken; else as bundle_alone(). */
struct job *bundle_settled(struct domain *d, const struct front_completion *c);
void bundle_done(struct domain *d, struct job *job, const struct front_completion *c); /* the slot is its no more */
/* So many jobs of the function have ended: so long all of them took, and so much output the largest had. */
void bundle_ran(struct plugin_function *f, uint32_t n, uint64_t usec, uint64_t output);

/* input.c */
void input_begin(struct job *job); /* the function is known: early input moves on */
int input_prepare(struct job *job, bool streaming); /* makes the pipe, or the memfd where there is to be one in any case */
/* Why a file is none that can be input. NULL: it can. */
const char *input_refuses(const struct job_file *file);
int input_hold(struct job *job, const struct job_file *file); /* NEW: takes its descriptor; 0 or a negative errno */
/* NEW, its function is known: charges what it holds. 0, or a negative errno; input_words() says why; as user_admit(). */
int input_admit(struct job *job, bool streaming, uint64_t *ret_retry_usec);
void input_words(const struct job *job, int error, char text[static JOB_TEXT]);
int input_take(struct job *job, const void *data, size_t size, bool last);
void input_free(struct job *job);

/* arena.c */
const char *arena_refuses(const struct job_parts *parts, int *ret_code); /* NULL: nothing against it */
int arena_hold(struct job *job, const struct job_parts *parts); /* 0 or -ENOMEM */
void arena_free(struct job *job); /* it has ended: its parts are free */
/* Where it uses one: the executor has it then, and keeps it until arena_returned(). 0 or a negative errno. */
int arena_describe(struct domain *d, const struct job *job, struct front_job *ret);
void arena_returned(struct job *job); /* the job is not with the executor, or no more, whatever became of it */
void arenas_init(struct domain *d);
void arenas_swap(struct domain *d, struct domain *fresh); /* the executor of d is that of fresh, which has shown nothing */
void arenas_gone(struct domain *d); /* the executor is */
bool arena_writes(const struct job *job); /* its output goes there */
void arena_died(struct job *job); /* so did its executor, while it ran */
bool arena_placed(struct job *job, uint64_t size); /* so much output is there now; false: that cannot be */
uint64_t arena_output(const struct job *job);

/* Descriptors of its go to the executor with it. */
static inline bool job_by_descriptor(const struct job *job)
{
    return job->more && (job->more->input_fd >= 0 || job->more->pipe_fd >= 0);
}

/* What goes with it through the ring; NULL: nothing. */
static inline const void *job_input(const struct job *job)
{
    if (job->more && !(job->flags & JOB_PIPE) && buffer_size(&job->more->early))
        return buffer_data(&job->more->early);
    return job->input_size ? job_given(job) + job->args_size : NULL;
}

/* output.c */
void output_add(struct job *job, const void *data, size_t size);
/* The last of it, where its one reader has had all before and takes it with the end. False: output_add() it. */
bool output_rest(struct job *job, const void *data, size_t size);
const char *output_lost(const struct job *job); /* JOB_TRUNCATED: why */
/* Whether the executor's count at the end is that of what came; `rest` bytes are not added yet. */
bool output_adds_up(struct job *job, const struct front_completion *c, size_t rest);
void output_add_chunk(struct job *job, const struct front_completion *c);
void output_absorb(struct job *job); /* takes over every held piece */
void output_pump(struct job *job);
/* What this watch can take now, at a cost that does not grow with the others. */
void output_give(struct job *job, struct watch *w);
/* Whether output is kept, or waits in the executor's memory, for the sake of this watch. */
bool output_waits_for(const struct job *job, const struct watch *w);
/* A watch of which that was so has read, or gone: output_pump(), at once for one reader, in output_turn() for many. */
void output_moved(struct job *job);
void output_turn(struct jobs *jobs); /* once a turn of the loop */
void output_discard(struct job *job); /* before it runs again */
void output_free(struct job *job);

/* plugins.c */
/* What a plugin is asked for as: a relative path begins at its submitter's working directory (NULL: not known). 0,
 * -EACCES (a path, and this is no wsd of this user's own), -ENOMEM, -ENAMETOOLONG (it would not fit a LOAD). */
int plugin_request(const struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                   char **ret_request);
/* The entry for a name or path, made where there is none or the file has changed. NULL: too many (errno EMFILE), or no
 * memory. */
struct plugin *plugin_get(struct domain *d, const char *request);
bool plugin_wanted(const struct plugin *p); /* to be loaded, and somebody waits for it */
struct plugin *plugin_loading(struct domain *d); /* what the executor loads now, or NULL */
/* NEW: until its plugin is loaded, which begins, or was done before: then what job_resolve() says. */
struct plugin_function *plugin_wait(struct job *job, const char *function);
void plugin_rearm(struct domain *d); /* see jobs_rearm() */
void plugin_load(struct plugin *p); /* sends LOAD to the executor, which is started where none runs */
void plugin_control(struct domain *d, const struct control *c); /* LOADED, FUNCTION */
/* The executor died; blame: nothing else explains it, so a plugin that was being loaded is suspected. */
void plugin_executor_gone(struct domain *d, bool blame);
void plugin_fail_waiting(struct domain *d, int error, const char *text); /* no executor can be had */
void plugin_load_wanted(struct domain *d);
struct plugin_function *plugin_find_function(struct plugin *p, const char *name);
/* The function of that name, made by this one's likeness where p is not loaded yet. NULL: it has none, or no memory. */
struct plugin_function *plugin_function_copy(struct plugin *p, const struct plugin_function *f);
/* What is asked for as ./dir/name.so is `name` there. Returns its length. */
size_t plugin_base_name(const char *request, const char **ret_name);
const char *plugin_title(const struct plugin *p); /* its own name, or what it was asked for as */
void plugin_free(struct plugin *p);

/* For reload.c. An entry that jobs find, where there is one; a new one; whether one can go; taking a file that is there
 * now for the one that was loaded. */
struct plugin *plugin_find(struct domain *d, const char *request);
struct plugin *plugin_make(struct domain *d, const char *request);
bool plugin_forgettable(const struct plugin *p);
void plugins_forget_looked(struct domain *d); /* which only questions have asked for */
void plugin_accept_file(struct plugin *p);
void plugin_failed(struct plugin *p, int error, const char *text);

/* reload.c */
bool reload_tries(const struct plugin *p); /* its file is being tried by another executor: not to be loaded yet */
bool reload_gone(struct domain *d);        /* the executor ended: true where the domain was for a probe only, and is freed */
void reload_rearm(struct probe *t);        /* see jobs_rearm() */
struct probe *reload_probe_free(struct probe *t);
bool reload_under_way(struct domain *d, const char *request);
void reload_settled(struct plugin *p); /* its load has come to an end: it is in the place of the old one, or is forgotten */
void reload_describe(const struct plugin *p, struct plugin_info *ret);
struct plugin_reload *reload_free(struct plugin_reload *r);

/* domain.c */
/* Whose executor a user's jobs go to: his own (his uid), or a number above every uid where he shares one; 0 where all do. */
uint64_t domain_owner(const struct jobs *jobs, uint32_t uid);
/* The one that all share (own NULL), or that of one plugin. NULL: there is none. */
struct domain *domain_find(const struct jobs *jobs, uint64_t owner, const char *own);
uint32_t domain_workers(const struct domain *d);
void domain_memory_words(const struct domain *d, char *text, size_t size); /* the key and its value */
struct domain *domain_get(struct jobs *jobs, uint32_t uid); /* NULL: no memory */
/* The one for this plugin's jobs; NULL: no memory, or too many that are apart. */
struct domain *domain_for(struct jobs *jobs, uint32_t uid, const char *request);
struct domain *domain_for_owner(struct jobs *jobs, uint64_t owner, const char *request);
/* Starts an executor where none runs and no pause is on. 0: there is one, or one will be; -EAGAIN: none can be had. */
int domain_start(struct domain *d);
/* Why none can be started, as far as it is known. */
void domain_fruitless(struct domain *d, const struct executor *e); /* it is dead, and was of no use */
const char *domain_failure(const struct domain *d);
void domain_pump(struct domain *d); /* hands over what fits */
/* Once a turn of the loop, for all that was handed over in it: a wake-up costs more than many jobs. */
bool domain_ring(struct domain *d); /* true: a worker was woken */
void domain_requeue(struct job *job); /* RUNNING, and with no executor any more: to the head of its queue */
/* The same where no worker has begun it, nor will, in an executor that is there. recalled: its slot was. */
void domain_take_back(struct job *job, bool recalled);
void domain_rearm(struct domain *d); /* see jobs_rearm() */
void domain_finish(struct domain *d); /* tells the executor to end, and ends it where it does not */
void domain_free(struct domain *d);
struct domain *domain_new(struct jobs *jobs, uint64_t owner); /* in no table; NULL: no memory */
void domain_start_executor(struct domain *d); /* at once; d->executor stays NULL where it fails */
/* If it has no work, it is idle from now on. Looked at from time to time as long as there is an executor, from when that is ready: it may have
 * been started for a question only, or what it was started for may be cancelled. */
void domain_rest(struct domain *d);
/* The same where the last job has ended: before wsd sleeps, by when a client that awaited it has sent the next one, and no timer has to be moved
 * for that. */
void domain_settle(struct domain *d);
#define DOMAINS_TAKE 1024u /* completions in a turn of the loop, of all domains; a KiB of output counts as one */
void names_deinit(struct names *n); /* names.c */
bool domain_poll(struct domain *d); /* takes a batch of completions; true: there may be more */
void domain_complete(struct domain *d, const struct front_completion *c);
void domain_done(struct job *job, const struct front_completion *c); /* the slot is the job's no more */
bool domain_wanted(struct domain *d); /* something waits for an executor */
void domain_forget_opens(struct job *job);
void liar(struct domain *d, const char *what); /* nothing more is believed of this executor */

/* job-breaker.c */
enum plugin_apart { PLUGIN_TOGETHER = 0, PLUGIN_APART_CONFIGURED = 1, PLUGIN_APART_CRASHED = 2 };
enum plugin_apart plugin_apart(const struct jobs *jobs, uint64_t owner, const char *request);
/* The name by which wsd.conf knows a plugin: its own, or that of its file, in the buffer, as long as nothing else is known. */
const char *job_breaker_name(const struct jobs *jobs, uint64_t owner, const char *request, char buffer[static 64]);
/* Something may be known against a plugin, or its function. Where not, as mostly, nothing below need be asked. */
static inline bool job_breaker_knows(const struct plugin *p, const struct plugin_function *f)
{
    uint64_t n = p->domain->jobs->breakers.n_added;

    return p->innocent != n || f->innocent != n;
}
static inline bool job_breaker_suspects(const struct job *job) /* the same of those of a job, whose function is known */
{
    return job_breaker_knows(job->plugin, job_function(job));
}
bool job_breaker_refuses(struct job *job, char text[static JOB_TEXT], uint64_t *ret_retry_usec); /* its function is in quarantine */
void job_breaker_try(struct job *job); /* it goes on: perhaps on probe */
/* QUEUED, where its plugin has to run apart: moves it there. False: it stays. */
bool job_breaker_move(struct job *job);
void job_breaker_deaf(struct job *job); /* its executor is killed for its sake */
void job_breaker_crashed(struct job *job, const char *why);
/* Its executor has died without a word while no other function ran; alone: or ever had, in that executor. */
void job_breaker_silent(struct job *job, bool alone, const char *why);
/* The same for what is no job: `call` tells it from others. */
void job_breaker_function(const struct plugin *p, const struct plugin_function *f, const void *call, const char *why);
void job_breaker_ended(struct job *job, bool went_well); /* it is final, and has not crashed */
void job_breaker_describe(const struct plugin *p, const struct plugin_function *f, struct plugin_function_info *ret);

/* ask.c */
void ask_init(struct domain *d);
void ask_started(struct domain *d); /* the executor is there: it is traced where the last one was */
void ask_answered(struct domain *d, const struct control *c); /* ASKED */
void ask_executor_gone(struct domain *d);
void ask_swap(struct domain *a, struct domain *b); /* their executors changed places */
int ask_health(struct domain *d); /* whether it is there; health_heard() follows */
uint64_t ask_traces(const struct jobs *jobs); /* under way */

/* recycle.c */
void recycle_look(struct domain *d, uint32_t n); /* so many jobs have ended */
void recycle_spoilt(struct domain *d, const char *reason); /* by its jobs */
bool recycle_starved(struct domain *d, const char *reason); /* it cannot load a plugin; false: and no other executor will */
void recycle_abandon(struct domain *d); /* the one that stands by is not wanted any more */
void recycle_ready(struct domain *n);   /* the executor that stands by is there */
void recycle_control(struct domain *n, const struct control *c); /* LOADED, FUNCTION of the standby */
/* recover() is done; frees the domain where it was for this executor only. */
bool recycle_gone(struct domain *d);

/* lane.c: direct lanes */
struct lanes_death {
    const struct fault_note *note; /* NULL: none */
    const char *crash;             /* words for that */
    const char *how;               /* words for those who were there */
};
int lanes_init(struct domain *d);
void lanes_control(struct domain *d, const struct control *c); /* LANED */
void lanes_belled(struct domain *d); /* something may have begun */
void lanes_watch(struct domain *d);  /* looks at them for a while */
bool lanes_running(const struct domain *d); /* a direct call runs */
bool lanes_wait(const struct domain *d);    /* or did just now, or one is waited for */
void lanes_revoke(struct domain *d);        /* nothing more is begun in them */
void lanes_review(struct jobs *jobs);       /* limits, or what is allowed, have changed */
void lanes_stale(const struct plugin *p);   /* new calls do not go to this one */
void lanes_swap(struct domain *d, struct domain *n); /* d's executor is n's now; n had none */
void lanes_count(struct jobs *jobs, struct jobs_counters *ret); /* adds those that are open */
/* The executor is dead, or being freed: each call has its verdict, no lane is left. True: it was killed for one of them. */
bool lanes_gone(struct domain *d, const struct lanes_death *death);

/* recover.c */
void recover(struct domain *d, int code, int status);

/* admission.c */
struct user *user_get(struct jobs *jobs, uint32_t uid);
static inline const struct jobs_limits *user_limits(const struct jobs *jobs, const struct user *user) /* in force for him */
{
    return user->own_limits ? user->own_limits : &jobs->options.limits;
}
bool user_evict(struct user *user); /* drops the oldest kept result that nobody reads */
/* A limit of events a second, kept as one time, *at (CLOCK_MONOTONIC, ns): when the one before would have been due had they come
 * evenly. rate_wait() says how long until one more may come, in us, 0: now; rate_take() counts it. rate 0: any number; burst 0: as
 * many as in a second. */
uint64_t rate_wait(uint64_t at, uint64_t rate, uint64_t burst, uint64_t now_nsec);
void rate_take(uint64_t *at, uint64_t rate, uint64_t now_nsec);
/* 0; -ENOSPC: max-bytes-per-user is reached; -EDQUOT: max-bytes is. user_charge_words() says it. */
int user_charge(struct jobs *jobs, struct user *user, uint64_t bytes);
/* The same for what is refused as a whole: *ret_retry_usec says when to try again; it is left where there will never be room. */
int user_admit(struct jobs *jobs, struct user *user, uint64_t bytes, uint64_t *ret_retry_usec);
const char *user_charge_words(int error);
void user_refund(struct jobs *jobs, struct user *user, uint64_t bytes);
