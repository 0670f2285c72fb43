/* SPDX-License-Identifier: Apache-2.0
 *
 * job-trace-text.c: the text of wsd's part of a trace.
 * Owns the trace that it reads. Owns a record of each job that has begun and not ended there. [loop]
 * Keeps: spans of a lane lie within or behind each other. Nothing ends before it begins, whatever an executor said.
 * Does not know which users may read it (query.c). */
#include "domains/job-trace-text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "table/job-trace.h"

#define LANES      1024u
#define NO_LANE    UINT32_MAX
#define EVENT_TEXT (5 * JOB_TRACE_LINE) /* of one event, at most: thread, three spans, the job */

/* A job that has come into the trace, and not gone. */
struct way {
    struct hash_link by_id;
    uint8_t id[16];
    uint32_t lane; /* NO_LANE: all were taken */
    uint64_t from; /* of the job's span */
    uint64_t since;
    const char *what; /* what has gone on since then; NULL: nothing that is shown */
    struct job_trace_event last;
};

struct job_trace_text {
    struct job_trace *trace;
    struct hash ways;
    size_t cursor;       /* of the walk at the end */
    bool begun, counted; /* the first line was written; the last one */
    uint64_t n_without;  /* jobs without a lane */
    uint8_t taken[LANES], named[LANES];
    uint32_t free_from; /* all lanes below are taken */
    char *data;         /* of the call under way */
    size_t used, room;
};

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* One line: one object. Texts in it are ours, or went through title(). */
__attribute__((format(printf, 2, 3))) static void put_line(struct job_trace_text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(text->data + text->used, text->room - text->used, format, args);
    va_end(args);
    if (n > 0 && (size_t)n < text->room - text->used)
        text->used += (size_t)n;
}

#define TIME       "%" PRIu64 ".%03u"
#define USEC(nsec) (nsec) / 1000u, (unsigned)((nsec) % 1000u)

static void id_text(const uint8_t id[16], char ret[static 33])
{
    for (int i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", id[i]);
}

/* PLUGIN:FUNCTION, with nothing in it that JSON would have to escape. */
static void title(const struct job_trace_event *e, char ret[static 2 * JOB_TRACE_NAME])
{
    snprintf(ret, 2 * JOB_TRACE_NAME, "%s%s%s", e->plugin, *e->function ? ":" : "", e->function);
    for (char *c = ret; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f || *c == '"' || *c == '\\')
            *c = '?';
}

static const char *state_name(uint8_t state)
{
    static const char *const names[] = {"new",    "held",      "delayed",   "queued",  "running",    "succeeded",
                                        "failed", "cancelled", "timed-out", "crashed", "interrupted"};

    return names[state];
}

static void put_span(struct job_trace_text *text, const struct way *w, const char *name, uint64_t from, uint64_t to)
{
    char id[33];

    id_text(w->id, id);
    put_line(text,
             "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":" TIME ",\"dur\":" TIME
             ",\"cat\":\"wsd\",\"name\":\"%s\",\"args\":{\"job\":\"%s\"}}\n",
             JOB_TRACE_PROCESS, w->lane, USEC(from), USEC(to - from), name, id);
}

static void put_job(struct job_trace_text *text, const struct way *w, uint64_t to)
{
    const struct job_trace_event *e = &w->last;
    char id[33], name[2 * JOB_TRACE_NAME];

    id_text(w->id, id);
    title(e, name);
    put_line(
        text,
        "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":" TIME ",\"dur\":" TIME
        ",\"cat\":\"job\",\"name\":\"%s\",\"args\":{\"job\":\"%s\",\"uid\":%u,\"state\":\"%s\",\"exit\":%u%s%s%s}}\n",
        JOB_TRACE_PROCESS, w->lane, USEC(w->from), USEC(to - w->from), name, id, e->uid, state_name(e->state), e->exit,
        *e->traceparent ? ",\"traceparent\":\"" : "", e->traceparent, *e->traceparent ? "\"" : "");
}

static void put_head(struct job_trace_text *text)
{
    put_line(text,
             "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"wsd\"}}\n"
             "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":-1}}\n",
             JOB_TRACE_PROCESS, JOB_TRACE_PROCESS);
}

static void put_count(struct job_trace_text *text)
{
    if (!text->n_without)
        return;
    put_line(text,
             "{\"ph\":\"i\",\"s\":\"p\",\"pid\":%u,\"tid\":0,\"ts\":" TIME
             ",\"cat\":\"lost\",\"name\":\"more jobs at once than lanes\",\"args\":{\"jobs\":%" PRIu64 "}}\n",
             JOB_TRACE_PROCESS, USEC(text->trace->from_nsec), text->n_without);
}

/* --- ways --------------------------------------------------------------------------------------------------------- */

static uint32_t take_lane(struct job_trace_text *text)
{
    uint32_t lane = text->free_from;

    while (lane < LANES && text->taken[lane])
        lane++;
    text->free_from = lane;
    if (lane == LANES) {
        text->n_without++;
        return NO_LANE;
    }
    text->taken[lane] = true;
    if (!text->named[lane])
        put_line(text,
                 "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"jobs %u\"}}\n",
                 JOB_TRACE_PROCESS, lane, lane);
    text->named[lane] = true;
    return lane;
}

static uint64_t key_of(const uint8_t id[16])
{
    uint64_t halves[2];

    memcpy(halves, id, sizeof(halves));
    return hash_number(halves[0] ^ hash_mix(halves[1]));
}

static struct way *find_way(const struct job_trace_text *text, const uint8_t id[16])
{
    for (struct hash_link *l = hash_first(&text->ways, key_of(id)); l; l = hash_next(l)) {
        struct way *w = container_of(l, struct way, by_id);

        if (memcmp(w->id, id, sizeof(w->id)) == 0)
            return w;
    }
    return NULL;
}

static struct way *new_way(struct job_trace_text *text, const struct job_trace_event *e, uint64_t from)
{
    struct way *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    memcpy(w->id, e->id, sizeof(w->id));
    if (hash_insert(&text->ways, &w->by_id, key_of(e->id)) < 0) {
        free(w);
        return NULL;
    }
    w->from = w->since = from;
    w->lane = take_lane(text);
    return w;
}

static void forget_way(struct job_trace_text *text, struct way *w)
{
    if (w->lane != NO_LANE) {
        text->taken[w->lane] = false;
        text->free_from = MIN(text->free_from, w->lane);
    }
    hash_remove(&text->ways, &w->by_id);
    free(w);
}

/* It has done `what` until `to`, and nothing that is shown from then on. */
static void end_span(struct job_trace_text *text, struct way *w, uint64_t to)
{
    if (w->what && w->lane != NO_LANE && to > w->since)
        put_span(text, w, w->what, w->since, to);
    w->what = NULL;
    w->since = MAX(to, w->since);
}

static void end_way(struct job_trace_text *text, struct way *w, uint64_t to)
{
    end_span(text, w, to);
    if (w->lane != NO_LANE)
        put_job(text, w, to);
    forget_way(text, w);
}

static const char *waits_as(const struct job_trace_event *e)
{
    if (e->kind == JOB_TRACE_GATE)
        return "limited";
    return e->state == JOB_RUNNING ? "handed over" : state_name(e->state);
}

static uint64_t between(uint64_t low, uint64_t value, uint64_t high)
{
    return MIN(MAX(low, value), high);
}

static void ended(struct job_trace_text *text, struct way *w, const struct job_trace_event *e)
{
    end_span(text, w, e->from_nsec ? between(w->since, e->from_nsec, e->nsec) : e->nsec);
    w->since = e->to_nsec ? between(w->since, e->to_nsec, e->nsec) : e->nsec;
    w->what = "answer";
}

static void put_event(struct job_trace_text *text, const struct job_trace_event *e)
{
    uint64_t begin = text->trace->from_nsec;
    bool accepted = e->kind == JOB_TRACE_ACCEPTED;
    struct way *w = find_way(text, e->id);

    if (!w) {
        w = new_way(text, e, accepted ? between(begin, e->from_nsec, e->nsec) : begin);
        if (!w) {
            text->n_without++;
            return;
        }
        w->what = accepted ? "arrived" : e->state == JOB_RUNNING ? "queued" : NULL; /* that is all that is known */
    }
    if (e->kind != JOB_TRACE_TOLD)
        w->last = *e; /* its state and exit */
    if (e->kind == JOB_TRACE_TOLD) {
        end_way(text, w, e->nsec);
    } else if (e->kind == JOB_TRACE_STATE && e->state >= JOB_SUCCEEDED) {
        ended(text, w, e);
    } else {
        end_span(text, w, e->nsec);
        w->what = accepted ? NULL : waits_as(e);
    }
}

/* Of the jobs that are there at the end, the next one. False: there is none. */
static bool put_rest(struct job_trace_text *text)
{
    while (text->ways.n > 0) {
        struct hash_link *l = text->ways.buckets[text->cursor];

        if (l) {
            end_way(text, container_of(l, struct way, by_id), text->trace->to_nsec);
            return true;
        }
        text->cursor++;
    }
    return false;
}

/* --- for query.c -------------------------------------------------------------------------------------------------- */

struct job_trace_text *job_trace_text_new(struct job_trace *trace)
{
    struct job_trace_text *text = calloc(1, sizeof(*text));

    if (!text) {
        job_trace_free(trace);
        return NULL;
    }
    text->trace = trace;
    return text;
}

struct job_trace_text *job_trace_text_free(struct job_trace_text *text)
{
    if (!text)
        return NULL;
    for (size_t i = 0; i < text->ways.n_buckets; i++)
        while (text->ways.buckets[i])
            forget_way(text, container_of(text->ways.buckets[i], struct way, by_id));
    hash_deinit(&text->ways);
    job_trace_free(text->trace);
    free(text);
    return NULL;
}

size_t job_trace_text_read(struct job_trace_text *text, char *data, size_t size)
{
    struct job_trace_event e;

    text->data = data;
    text->room = size;
    text->used = 0;
    if (!text->begun)
        put_head(text);
    text->begun = true;
    while (text->room - text->used >= EVENT_TEXT && job_trace_next(text->trace, &e))
        put_event(text, &e);
    while (text->room - text->used >= EVENT_TEXT && put_rest(text))
        ;
    if (text->room - text->used >= EVENT_TEXT && !text->counted) {
        text->counted = true;
        put_count(text);
    }
    return text->used;
}
