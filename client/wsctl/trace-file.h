/* SPDX-License-Identifier: Apache-2.0
 *
 * trace-file.h: the file of a trace, for chrome://tracing and Perfetto; all jobs, or one with its tasks.
 */
#pragma once

#include <stdint.h>

#include "ctl.h"
#include "stream.h"
#include "trace-ways.h"

#define TRACE_CLIENT_SPANS 10u

/* What the client itself did. */
struct trace_client {
    struct {
        const char *name;
        uint64_t from, to; /* nanoseconds of CLOCK_MONOTONIC */
    } spans[TRACE_CLIENT_SPANS];
    size_t n;
    uint64_t submit, done; /* when it began to submit, and knew the end; 0: it did not */
};

struct trace_file;

/* Opens the files before anything is recorded: where they cannot be written, nothing is. otlp NULL: none. Returns 0 or
 * the exit code, said. */
int trace_file_open(const struct ctl *ctl, const char *path, const char *otlp, struct trace_file **ret);
/* From now on only this job and its tasks go into the file. */
void trace_file_only(struct trace_file *file, const struct wsd_id *job);
/* Ends the trace that was begun, and writes it; client NULL: without the client's own spans. Returns 0 or the exit code,
 * said. */
int trace_file_take(struct trace_file *file, struct wsd_client *wsd, const struct trace_client *client);
/* Closes it; r: what the work with it came to. Only with 0 the files get their new content. Says what is in them, unless
 * it is quiet. Returns r, or the exit code, said. */
int trace_file_close(struct trace_file *file, int r);
