/* SPDX-License-Identifier: Apache-2.0
 *
 * runners.h: runners: clients that take jobs over their connections. What the callers of jobs/ see of them. [loop]
 *
 * The runners of one user that have offered the same name share the jobs that this user submits for it. Where the
 * configuration says which users may offer a name, its runners share the jobs of all users.
 *
 * A name that begins with `@` is a place. Its runners offer one function, `*`, and take jobs for whatever plugin.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table/interface.h"

#define RUNNERS_PER_USER   256u           /* runners of one user: each takes a descriptor and four mappings */
#define RUNNERS_NAMES      64u            /* names of one user that runners have, or jobs wait for */
#define RUNNER_FUNCTIONS   64u            /* functions of one name */
#define RUNNER_WINDOW      (128u * 1024u) /* output of one run, in bytes, that a runner may send ahead */
#define RUNNER_ABSENT_USEC 10000000u      /* after the last runner of a name has gone, its jobs wait for another */

struct runner;

/* Texts are copied. */
struct runner_offer {
    const char *name, *version, *help;
    const struct runner_function {
        const char *name, *help;
        uint64_t flags; /* as of <wsd/plugin.h> */
    } * functions;
    size_t n_functions; /* 1 to RUNNER_FUNCTIONS, of different names */
    uint32_t credit;    /* jobs that it takes at once, 1 to RING_SLOTS */
    bool places;        /* it can put output into an arena */
    uint32_t uid;
    int32_t pid;
};

/* A job for the runner. Everything lives for the time of the call. */
struct runner_run {
    uint64_t run; /* names this run of the job */
    const uint8_t *id;
    const char *function; /* at a place PLUGIN or PLUGIN:FUNCTION */
    const char *args;     /* each with its NUL */
    size_t args_size;
    uint32_t argc;
    uint64_t timeout_usec;
    int priority;
    uint32_t uid, attempt;
    const char *directory;   /* NULL: not known */
    const char *key;         /* NULL: none */
    const char *traceparent; /* likewise */
    bool asks;               /* the submitter's files have to be asked for */
    const void *input;       /* of RUNNER_BODY */
    uint64_t input_size, input_at;
    enum runner_input { RUNNER_BODY, RUNNER_FILE, RUNNER_PIPE } input_from;
    uint64_t output_at, output_size; /* where the output goes in an arena; size 0: by runner_output() */
    int fd; /* of the input, of the arena for the output, or of both; it stays the caller's. -1: there is none */
};

enum runner_why { RUNNER_CANCELLED = 1, RUNNER_TIMED_OUT = 2 };

/* Upward calls. None may call back. */
struct runner_ops {
    bool (*takes)(void *context); /* whether run() can be called now */
    void (*run)(void *context, const struct runner_run *run);
    void (*stop)(void *context, uint64_t run, enum runner_why why);
    /* Answers runner_open_file(). error: a positive errno. fd: -1, or a descriptor that stays the caller's. */
    void (*opened)(void *context, uint64_t run, uint32_t serial, int error, int fd);
    void (*credit)(void *context, uint64_t run, uint32_t bytes); /* so much more output may be sent */
    void (*ping)(void *context, uint32_t serial);                /* runner_pong() answers */
    void (*left)(void *context);                                 /* after runner_leave(): it has no job any longer */
    bool (*may_stay)(void *context, const char *name);           /* whether its user may still offer this name */
    void (*kill)(void *context);                                 /* its connection is to end */
};

/* Appends the names that runners of this user offer to a block of names, each with its NUL. Returns 0 or -ENOMEM. */
int jobs_runner_names(const struct jobs *jobs, uint32_t uid, char **names, size_t *size);
/* Whether runners have this name, or jobs of this user wait for some. */
bool jobs_is_runner(const struct jobs *jobs, uint32_t uid, const char *name);
/* Returns 0, -ENOMEM, or -EINVAL with a refusal. */
int runner_new(struct jobs *jobs, const struct runner_offer *offer, const struct runner_ops *ops, void *context,
               struct runner **ret_runner, int *ret_code, char ret_refusal[static 256]);
/* Its connection has ended, for this reason; or it has left in order (NULL). NULL is fine. Returns NULL. */
struct runner *runner_free(struct runner *r, const char *why);
/* The configuration was read again, or a drain begins. Runners that may no longer have their name, or that are for the
 * jobs of other users now, take no more jobs. Jobs end that have waited for too long. */
void jobs_review_runners(struct jobs *jobs);
/* It takes no more jobs; `left` follows. */
void runner_leave(struct runner *r);

/* What the runner says of a run. Each returns NULL, or what is wrong with that. */
const char *runner_output(struct runner *r, uint64_t run, uint64_t offset, const void *data, size_t size);
const char *runner_message(struct runner *r, uint64_t run, uint32_t level, const char *text);
const char *runner_progress(struct runner *r, uint64_t run, uint64_t done, uint64_t total);
const char *runner_open_file(struct runner *r, uint64_t run, uint32_t serial, const char *path);

struct runner_end {
    uint32_t status;
    uint32_t state; /* 0: by the status; JOB_TIMED_OUT, JOB_CRASHED or JOB_INTERRUPTED: that is its end */
    const char *error, *text;
    uint64_t cpu_usec;
    uint64_t placed;  /* bytes of output in the arena */
    const void *data; /* the last bytes of the output */
    size_t size;
};
const char *runner_end(struct runner *r, uint64_t run, const struct runner_end *end);
const char *runner_pong(struct runner *r, uint32_t serial);
