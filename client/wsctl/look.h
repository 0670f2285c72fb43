/* SPDX-License-Identifier: Apache-2.0
 *
 * look.h: everything that `wsctl top` shows, at one moment, and what two moments tell about the time between them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "wsd/client.h"

/* A listing of all jobs costs wsd something for each: above so many it is left out. */
#define LOOK_JOBS_MAX 10000u

struct look_counter {
    char name[40];
    uint64_t value;
};

struct look_worker {
    uint32_t executor, worker;
    enum wsd_worker_kind kind;
    uint64_t run, cpu_usec;
};

struct look_executor {
    uint32_t executor, uid, pid;
    uint64_t memory;
    int error;
    size_t first, n; /* its workers */
};

struct look_gate {
    char plugin[96], function[64], tag[64];
    bool paused, drained;
    uint32_t limit;
    uint64_t running, waiting;
};

/* info's texts are only as look_job_info() gives them. */
struct look_job {
    struct wsd_job_info info;
    char plugin[96], function[64], worker[24], error[128];
};

struct look_user {
    uint32_t uid;
    uint64_t running, waiting, ended;
};

#define LOOK_NAME 160u /* of a function: PLUGIN:FUNCTION, cut off */

struct look_function {
    char name[LOOK_NAME];
    uint32_t uid;
    uint64_t jobs, bad, refused; /* bad: not succeeded */
    uint64_t queue_p99, run_p50, run_p99;
    bool in_quarantine;
};

struct look {
    uint64_t usec;                                                             /* monotonic */
    uint64_t real_usec;                                                        /* since the epoch */
    bool has_functions;                                                        /* they were asked for */
    bool listed;                                                               /* jobs and users are known */
    struct buffer counters, executors, workers, gates, jobs, users, functions; /* arrays of the above */
};

/* The members of an array. */
#define LOOK_N(buffer, type)  (buffer_size(&(buffer)) / sizeof(type))
#define LOOK_AT(buffer, type) ((type *)(void *)((buffer).data + (buffer).start))

/* Asks wsd; for functions where they are wanted. 0; -ENOMEM; else as wsd_client_stats(). ret has to be freed in either
 * case. */
int look_take(struct look *ret, struct wsd_client *client, bool functions);
void look_deinit(struct look *look);

uint64_t look_counter(const struct look *look, const char *name);
/* By how much a counter has grown. */
uint64_t look_growth(const struct look *before, const struct look *now, const char *name);
/* Jobs that have ended, whichever way. */
uint64_t look_ended(const struct look *before, const struct look *now);
/* For one second. */
double look_rate(const struct look *before, const struct look *now, uint64_t growth);
/* The part of the time between two looks that a worker had a CPU, in percent, 0 to 100; *ret_run: what it has run. A
 * worker that was not there before has done all of it since. */
double look_busy(const struct look *before, const struct look *now, const struct look_worker *worker,
                 uint64_t *ret_run);
/* Jobs of a function of `now` that ended in a second. 0 where it was not counted before. */
double look_function_rate(const struct look *before, const struct look *now, const struct look_function *f);
/* With its texts; as long as the look is. */
struct wsd_gate_info look_gate_info(const struct look_gate *gate);
struct wsd_job_info look_job_info(const struct look_job *job);

enum look_sort { LOOK_BY_RUN, LOOK_BY_CPU, LOOK_BY_NEW, LOOK_SORTS };
extern const char *const look_sort_names[LOOK_SORTS];
/* Open jobs first by this, then those that have ended, the newest first; LOOK_BY_NEW: all, the newest first. */
void look_sort(struct look *look, enum look_sort by);
/* Functions by their rate, the highest first, then by their jobs. */
void look_sort_functions(struct look *now, const struct look *before);
