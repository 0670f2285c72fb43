/* SPDX-License-Identifier: Apache-2.0
 *
 * trace-ways.h: what a trace says of each job: where its time went, in wsd and on the workers. Times are nanoseconds of
 * CLOCK_MONOTONIC.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "json-parse.h"

#define TRACE_ID 33u /* text of a job's id, with its NUL */

/* One line of a trace. Its texts are those of the value that it was read from; "" where there is none. */
struct trace_line {
    char phase; /* X, M, s, f, i */
    const char *category, *name, *job, *state, *traceparent;
    uint64_t process, lane, uid, exit;
    uint64_t from, to;
};

struct trace_line trace_line_of(const struct json_value *event);
/* Whether a job's own code ran, on a worker. */
bool trace_line_works(const struct trace_line *line);

/* A stretch of one lane. */
struct trace_span {
    uint64_t from, to, process, lane;
};

struct trace_spans {
    struct trace_span *all;
    size_t n;
};

/* One job. What its trace does not have is 0. */
struct trace_way {
    struct hash_link by_id;
    struct list link; /* in the order in which they came */
    char id[TRACE_ID], name[160], state[16], traceparent[64];
    uint64_t uid, exit;
    struct trace_span job, arrived, answer; /* in wsd */
    struct trace_spans handed;              /* in wsd, each try */
    struct trace_spans runs;                /* on workers, likewise */
};

struct trace_ways {
    struct hash by_id;
    struct list all; /* struct trace_way */
};

void trace_ways_init(struct trace_ways *ways);
void trace_ways_deinit(struct trace_ways *ways);
/* Takes what the line says. own: it is of wsd's own part, which comes first; jobs that are not in there are not known.
 * Returns 0 or -ENOMEM. */
int trace_ways_add(struct trace_ways *ways, const struct trace_line *line, bool own);
/* NULL: the trace does not have it. */
const struct trace_way *trace_ways_find(const struct trace_ways *ways, const char *id);
/* The time of the hand-over that led to the run. NULL: it is not in the trace. */
const struct trace_span *trace_way_handed(const struct trace_way *way, const struct trace_span *run);
