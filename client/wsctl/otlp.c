/* SPDX-License-Identifier: Apache-2.0
 *
 * otlp.c: spans of a job in OTLP's JSON encoding.
 * Owns nothing. One thread.
 * Keeps: the ids of a job's spans are made of its own, so the same trace gives the same ids. Those of two jobs differ.
 * Does not send: any collector reads such a file. */
#include "otlp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "config.h"
#include "json-write.h"

#define SPAN_ID 17u /* text, with its NUL */

/* of opentelemetry.proto.trace.v1 */
enum kind { KIND_INTERNAL = 1, KIND_PRODUCER = 4, KIND_CONSUMER = 5 };
enum status { STATUS_OK = 1, STATUS_ERROR = 2 };

/* Where the parts of a traceparent are: 00-TRACE-PARENT-FLAGS. */
enum { TRACE_AT = 3, TRACE_DIGITS = 32, PARENT_AT = 36, PARENT_DIGITS = 16 };

struct writer {
    struct json json;
    const struct trace_way *way;
    uint64_t offset;
    unsigned n; /* spans so far */
    char trace[TRACE_ID];
};

/* The n-th of a job, never all zero. */
static void span_id(const struct trace_way *way, unsigned n, char ret[static SPAN_ID])
{
    uint64_t id = hash_mix(strtoull(way->id + TRACE_DIGITS / 2, NULL, 16) + n * UINT64_C(0x9e3779b97f4a7c15));

    snprintf(ret, SPAN_ID, "%016" PRIx64, id ? id : 1);
}

static void put_attribute(struct json *json, const char *key, const char *kind, const char *value)
{
    json_open(json, NULL, '{');
    json_string(json, "key", key);
    json_open(json, "value", '{');
    json_string(json, kind, value);
    json_close(json, '}');
    json_close(json, '}');
}

static void put_number(struct json *json, const char *key, uint64_t value)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    put_attribute(json, key, "intValue", digits); /* 64 bits are texts in protobuf's JSON */
}

static void put_time(struct writer *w, const char *key, uint64_t nsec)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRIu64, nsec + w->offset);
    json_string(&w->json, key, digits);
}

static void put_span(struct writer *w, const char *parent, const char *what, enum kind kind, uint64_t from, uint64_t to)
{
    const struct trace_way *way = w->way;
    bool ok = strcmp(way->state, "succeeded") == 0;
    struct json *json = &w->json;
    char id[SPAN_ID], name[200];

    span_id(way, w->n++, id);
    snprintf(name, sizeof(name), "%s %s", what, way->name);
    json_open(json, NULL, '{');
    json_string(json, "traceId", w->trace);
    json_string(json, "spanId", id);
    if (*parent)
        json_string(json, "parentSpanId", parent);
    json_string(json, "name", name);
    json_number(json, "kind", kind);
    put_time(w, "startTimeUnixNano", from);
    put_time(w, "endTimeUnixNano", to);
    json_open(json, "attributes", '[');
    put_attribute(json, "wsd.job.id", "stringValue", way->id);
    put_attribute(json, "wsd.job.state", "stringValue", way->state);
    put_number(json, "wsd.job.uid", way->uid);
    put_number(json, "wsd.job.exit", way->exit);
    json_close(json, ']');
    json_open(json, "status", '{');
    json_number(json, "code", ok ? STATUS_OK : STATUS_ERROR);
    if (!ok)
        json_string(json, "message", way->state);
    json_close(json, '}');
    json_close(json, '}');
}

/* The spans of one program. */
static void begin_resource(struct json *json, const char *service)
{
    json_open(json, NULL, '{');
    json_open(json, "resource", '{');
    json_open(json, "attributes", '[');
    put_attribute(json, "service.name", "stringValue", service);
    json_close(json, ']');
    json_close(json, '}');
    json_open(json, "scopeSpans", '[');
    json_open(json, NULL, '{');
    json_open(json, "scope", '{');
    json_string(json, "name", "wsd");
    json_string(json, "version", WSD_VERSION);
    json_close(json, '}');
    json_open(json, "spans", '[');
}

static void end_resource(struct json *json)
{
    json_close(json, ']');
    json_close(json, '}');
    json_close(json, ']');
    json_close(json, '}');
}

static void put_tries(struct writer *w, const char *parent)
{
    const struct trace_way *way = w->way;
    uint64_t from = way->arrived.to ? way->arrived.to : way->job.from;

    if (way->runs.n == 0)
        put_span(w, parent, "queue", KIND_CONSUMER, from, way->job.to);
    for (size_t i = 0; i < way->runs.n; i++) {
        const struct trace_span *run = &way->runs.all[i];

        put_span(w, parent, "queue", KIND_CONSUMER, MIN(from, run->from), run->from);
        put_span(w, parent, "run", KIND_INTERNAL, run->from, run->to);
        from = run->to;
    }
}

int otlp_write(FILE *stream, const struct trace_way *way, uint64_t submit_nsec, uint64_t done_nsec,
               uint64_t offset_nsec)
{
    struct writer w = {.way = way, .offset = offset_nsec};
    char parent[SPAN_ID] = "";

    snprintf(w.trace, sizeof(w.trace), "%s", way->id);
    if (strlen(way->traceparent) >= PARENT_AT + PARENT_DIGITS) {
        snprintf(w.trace, sizeof(w.trace), "%.*s", TRACE_DIGITS, way->traceparent + TRACE_AT);
        snprintf(parent, sizeof(parent), "%.*s", PARENT_DIGITS, way->traceparent + PARENT_AT);
    }
    json_open(&w.json, "resourceSpans", '[');
    if (done_nsec) {
        begin_resource(&w.json, "wsctl");
        put_span(&w, parent, "submit", KIND_PRODUCER, submit_nsec, done_nsec);
        end_resource(&w.json);
        span_id(way, 0, parent); /* of what follows */
    }
    begin_resource(&w.json, "wsd");
    put_tries(&w, parent);
    end_resource(&w.json);
    json_close(&w.json, ']');
    return json_end_to(&w.json, stream) == 0 ? 0 : -1;
}
