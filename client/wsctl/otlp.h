/* SPDX-License-Identifier: Apache-2.0
 *
 * otlp.h: spans of jobs for OpenTelemetry: JSON lines, as its file exporter writes them.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "trace-ways.h"

/* Writes one ExportTraceServiceRequest on a line: a span `submit` of the client from submit_nsec to done_nsec, unless
 * that is 0; spans `queue` and `run` of wsd, one for each try. The trace is that of the job's traceparent, else one of its
 * own. offset_nsec: CLOCK_REALTIME minus CLOCK_MONOTONIC. Returns 0, or -1 with errno. */
int otlp_write(FILE *stream, const struct trace_way *way, uint64_t submit_nsec, uint64_t done_nsec,
               uint64_t offset_nsec);
