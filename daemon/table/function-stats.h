/* SPDX-License-Identifier: Apache-2.0
 *
 * function-stats.h: how the jobs of each function and user have ended, and how long they took: counters and histograms.
 * A direct call counts as a job that was not queued. [loop]
 */
#pragma once

#include <stdint.h>

#include "base/hash.h"
#include "base/histogram.h"
#include "table/interface.h"

struct front_completion;
struct plugin;
struct plugin_function;
struct user;

#define FUNCTION_STATS_MAX      1024u      /* functions of users */
#define FUNCTION_STATS_PER_USER 256u       /* functions of one user */
#define FUNCTION_STATS_OTHERS   UINT32_MAX /* in place of a uid: of all users, what has made room */

/* In the order of enum job_state, from JOB_SUCCEEDED on. */
enum function_outcome {
    FUNCTION_SUCCEEDED,
    FUNCTION_FAILED,
    FUNCTION_CANCELLED,
    FUNCTION_TIMED_OUT,
    FUNCTION_CRASHED,
    FUNCTION_INTERRUPTED,
    FUNCTION_REFUSED, /* not accepted, although the function was known */
    FUNCTION_OUTCOMES
};

/* What is measured of a job that has run; microseconds and bytes. */
enum function_measure { FUNCTION_QUEUE, FUNCTION_RUN, FUNCTION_CPU, FUNCTION_OUTPUT, FUNCTION_MEASURES };

/* One function of one user, since wsd's start. */
struct function_stats {
    struct hash_link by_name;
    uint64_t serial; /* another one where the struct serves another function; see stats_of() */
    uint32_t uid, index;
    struct user *user; /* NULL: of the others */
    char *plugin;      /* with function in one block; "": of the others */
    const char *function;
    uint64_t ended[FUNCTION_OUTCOMES];
    uint64_t direct; /* of these, so many were direct calls */
    struct histogram of[FUNCTION_MEASURES];
};

/* What a plugin's function remembers of the last answers, so that most jobs need no look-up. */
#define FUNCTION_STATS_NEAR 8u
struct function_stats_near {
    struct function_stats *stats;
    uint64_t serial; /* another one than that of stats: it is no longer of this function */
};

/* Those of all users. Zero-initialised it is empty. */
struct function_table {
    struct hash by_name;
    struct function_stats *rows[FUNCTION_STATS_MAX];
    uint64_t used[FUNCTION_STATS_MAX]; /* n_used when the row was last used */
    uint32_t n_rows;
    uint64_t n_used, n_serials;
    /* Of those that made room, and of those for which there was no memory. */
    struct function_stats others;
};

/* Returns what is known of this function and user. Where there is no room, what was unused for longest makes room: of
 * this user if that has FUNCTION_STATS_PER_USER. Never NULL. */
struct function_stats *function_stats_get(struct jobs *jobs, struct user *user, const char *plugin,
                                          const char *function);
/* The same by a plugin's own function, which remembers the answer. */
struct function_stats *function_stats_of(struct user *user, struct plugin *plugin, struct plugin_function *function);

/* The job has come to its final state, of which `info` tells. c NULL: it has not run. */
void function_stats_job(struct job *job, const struct job_info *info, const struct front_completion *c);
/* n jobs of a bundle have succeeded. */
void function_stats_bundle(struct job *bundle, uint32_t n, const struct array_end ends[]);
/* n jobs of the function ended like that, and nothing was measured. */
void function_stats_count(struct user *user, struct plugin *plugin, struct plugin_function *function,
                          enum function_outcome outcome, uint32_t n);

/* Walks all of them: *cursor begins at 0. NULL: that was all. Rows that come or go meanwhile are met once or not. */
const struct function_stats *function_stats_next(struct jobs *jobs, uint32_t *cursor);
void function_stats_deinit(struct jobs *jobs);
