/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h: a job, from its admission to its final state, and its watches. [loop]
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "proto/submit-options.h"
#include "sched/due.h"
#include "table/interface.h"
#include "table/plugin.h"
#include "table/table.h"
#include "table/user.h"

struct arena_use;
struct awaited;
struct awaiting;
struct batch;
struct policy;

#define JOB_TEXT           256u
#define JOB_TRACEPARENT    56u /* with its NUL: RING_TRACEPARENT */
#define JOBS_KEPT_PER_USER 10000u
#define WSD_STATUS_LAST    63 /* WSD_STATUS_MAX of <wsd/plugin.h>: the exit code where wsd itself refuses */

#define JOB_KEEPS(name, ...) char *name;

/* Fields that only some jobs need. */
struct job_more {
    struct job *job;     /* the job of this struct */
    struct event *timer; /* deadline, then grace, then expiry of a kept result */
    int input_fd;        /* memfd, or our end of the pipe */
    int pipe_fd;         /* the executor's end */
    int output_fd;       /* the submitter's, for the output; -1: none */
    struct event *pipe_event;
    /* input that came before the function was known, that the pipe did not take, or that is gathered here */
    struct buffer early;
    struct buffer output;   /* the last bytes received: not yet given to each watch, or kept */
    uint64_t received;      /* bytes of output so far */
    uint64_t charged;       /* charged to the user, beyond what the job was submitted with */
    uint64_t input_size;    /* without the inline input: bytes in input_fd, or on disk */
    uint64_t input_at;      /* by_file: offset at which the input begins */
    struct list held;       /* pieces still in the executor's memory */
    struct list offers_due; /* jobs->offers_due */
    struct list ends_due;   /* jobs->ends_due */
    struct watch *untold;   /* the first watch that was not told of the end; nor were those behind it */
    /* The first watch that was not offered output in the round under way; NULL: there is no such round. */
    struct watch *unoffered;
    uint64_t least;  /* offset of the slowest watch of the round */
    bool pump_again; /* after this round: there is more since it began */
    uint32_t held_chunks;
    char *error, *status, *backtrace;
    struct awaiting *awaiting; /* what the job runs after (after.h); NULL: nothing */
    struct awaited *awaited;   /* the jobs that run after it; NULL: none */
    /* As they were submitted; NULL: none. tags: separated by commas; traceparent: JOB_TRACEPARENT - 1 bytes. */
    KEPT_OPTIONS(JOB_KEEPS)
    struct arena_use *arena; /* its use of an arena for input or output; NULL: none */
    struct policy *policy;   /* for a job that is durable, or has a key or retries (policy.h); NULL */
    struct job_time *time;   /* for a job with a delay, or with a limit of its time in the queue; NULL */
    char *limit;             /* words for its timeout, where the configuration set that; NULL: the submitter did */
    uint64_t timeout_usec, queued_usec, run_usec, cpu_usec;
    uint64_t done, total;
    char worker[24];
    int exit;
    uint8_t n_fds; /* descriptors of input and output, counted for the user */
    uint8_t stop;  /* enum job_stop */
    bool input_last, input_broken;
    bool unkept;    /* allocated after the end, so it has no details of the end */
    bool no_retry;  /* cancelled when its answer was already sealed: that answer is the end */
    uint8_t sealed; /* enum job_stop: a stop came when the answer was sealed; the answer has the grace time to arrive */
    /* JOB_TRUNCATED, why: 0, -ENOMEM; -EDQUOT: the limit of all users; else the limits of the job and its user */
    int lost;
    bool output_either; /* it may go to the watch instead */
    bool output_again;  /* an earlier try has written into the file, from output_begin on, so much at least: */
    uint64_t output_begin, output_written;
    uint64_t placed;        /* bytes of output that the executor has written */
    bool by_file;           /* input_fd is a file of the submitter's, which others may change */
    bool by_pipe;           /* the input is in a pipe of the submitter's: pipe_fd, if the job reads it itself */
    uint64_t enqueued_usec; /* CLOCK_MONOTONIC: when it came into the queue for runners; 0: when it was accepted */
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
    uint8_t waits : 1;   /* for its runner, as long as it takes */
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

static inline bool job_final(const struct job *job)
{
    return job->state >= JOB_SUCCEEDED;
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
void job_discard(struct job *job);    /* frees one that nothing knows of yet */
void job_drop_given(struct job *job); /* frees the arguments and input; the caller refunds the charges */

static inline bool job_breaker_suspects(const struct job *job) /* the same for a job that has its function */
{
    return job_breaker_knows(job->plugin, job_function(job));
}

struct job_more *job_more(struct job *job);                   /* NULL: no memory */
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
struct log_about job_about(const struct job *job); /* for log_event(); lives as long as the job */
void job_free(struct job *job);
void job_stop(struct job *job, enum job_stop why);
/* the same for a job that no worker has begun, or will begin; in no list and no slot */
void job_stop_unbegun(struct job *job, enum job_stop why);
const char *job_time_words(const struct job *job); /* for a job that ran out of time */
void job_arm(struct job *job);                     /* it was handed over: starts its timeout */
#define PROGRESS_USEC  100000u                     /* between two looks at the progress of followed jobs */
#define PROGRESS_LOOKS 1024u                       /* looks in one turn of the loop, at most */
#define ENDS_A_TURN    128u                        /* watches told of an end in one turn of the loop */
/* final: tells the watches that have all output, in ends_turn(); frees the job if nothing needs it */
void job_settle(struct job *job);
void ends_turn(struct jobs *jobs); /* once a turn of the loop */
/* the same, where only this watch can have got all of it; NULL: none has */
void job_settle_one(struct job *job, struct watch *w);
void job_describe(const struct job *job, struct job_info *ret);
