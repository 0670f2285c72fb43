/* SPDX-License-Identifier: Apache-2.0
 *
 * job-trace-text.h: what wsd did with traced jobs, in the Chrome trace format. [loop]
 */
#pragma once

#include <stddef.h>

struct job_trace;

/* The number of wsd as a process of the trace. Those of executors count from 1. */
#define JOB_TRACE_PROCESS 1000000000u

/* At least this much room for each call of job_trace_text_read(). */
#define JOB_TRACE_LINE 1024u

/* The text is made as it is read, so a reader pays for its piece alone.
 *
 * Each job that is there at once has a lane of its own, up to 1,024; a lane is a thread of the trace. A job is one
 * complete event (X, cat `job`), from its arrival or the trace's begin to the time when its end was told. Within it are
 * (X, cat `wsd`): `arrived` until it was accepted; `held`, `delayed`, `queued` and `limited` as it waited. There, too,
 * are `handed over` until its worker began, and `answer` from its worker's end on. Jobs without a lane are counted in
 * an event (i). */
struct job_trace_text;

/* Takes the trace, also where it fails. NULL: no memory. */
struct job_trace_text *job_trace_text_new(struct job_trace *trace);
struct job_trace_text *job_trace_text_free(struct job_trace_text *text);
/* The next whole lines. Returns how many bytes; 0: that was all. */
size_t job_trace_text_read(struct job_trace_text *text, char *data, size_t size);
