/* SPDX-License-Identifier: Apache-2.0
 *
 * trace-ways.c: gathers from the lines of a trace what belongs to one job.
 * Owns the jobs that it has found. One thread.
 * Keeps: what an executor says is added to jobs that wsd has named only.
 * Does not write (trace-file.c, otlp.c). */
#include "trace-ways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* --- lines -------------------------------------------------------------------------------------------------------- */

static const struct json_value *member(const struct json_value *object, const char *name)
{
    for (const struct json_value *v = object ? object->first : NULL; v; v = v->next)
        if (v->name && strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

static const char *text_of(const struct json_value *object, const char *name)
{
    const struct json_value *v = member(object, name);

    return v && v->type == JSON_STRING ? v->text : "";
}

static uint64_t number_of(const struct json_value *object, const char *name)
{
    const struct json_value *v = member(object, name);

    return v && v->type == JSON_NUMBER ? strtoull(v->text, NULL, 10) : 0;
}

/* Microseconds with up to three decimals. */
static uint64_t nsec_of(const struct json_value *object, const char *name)
{
    const struct json_value *v = member(object, name);
    char *end;

    if (!v || v->type != JSON_NUMBER)
        return 0;
    uint64_t nsec = strtoull(v->text, &end, 10) * 1000;
    uint64_t unit = 100;
    if (*end == '.')
        for (const char *c = end + 1; *c >= '0' && *c <= '9' && unit > 0; c++, unit /= 10)
            nsec += (uint64_t)(*c - '0') * unit;
    return nsec;
}

struct trace_line trace_line_of(const struct json_value *event)
{
    const struct json_value *args = member(event, "args");
    uint64_t from = nsec_of(event, "ts");

    return (struct trace_line){.phase = *text_of(event, "ph"),
                               .category = text_of(event, "cat"),
                               .name = text_of(event, "name"),
                               .job = text_of(args, "job"),
                               .state = text_of(args, "state"),
                               .traceparent = text_of(args, "traceparent"),
                               .process = number_of(event, "pid"),
                               .lane = number_of(event, "tid"),
                               .uid = number_of(args, "uid"),
                               .exit = number_of(args, "exit"),
                               .from = from,
                               .to = from + nsec_of(event, "dur")};
}

bool trace_line_works(const struct trace_line *line)
{
    return line->phase == 'X' && (strcmp(line->category, "root") == 0 || strcmp(line->category, "task") == 0 ||
                                  strcmp(line->category, "running") == 0);
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

void trace_ways_init(struct trace_ways *ways)
{
    *ways = (struct trace_ways){.by_id = {.n = 0}};
    list_init(&ways->all);
}

static void way_free(struct trace_way *way)
{
    list_remove(&way->link);
    free(way->handed.all);
    free(way->runs.all);
    free(way);
}

void trace_ways_deinit(struct trace_ways *ways)
{
    list_for_each_safe (l, n, &ways->all)
        way_free(container_of(l, struct trace_way, link));
    hash_deinit(&ways->by_id);
}

static struct trace_way *find(const struct trace_ways *ways, const char *id)
{
    for (struct hash_link *l = hash_first(&ways->by_id, hash_text(0, id, strlen(id))); l; l = hash_next(l)) {
        struct trace_way *way = container_of(l, struct trace_way, by_id);

        if (strcmp(way->id, id) == 0)
            return way;
    }
    return NULL;
}

const struct trace_way *trace_ways_find(const struct trace_ways *ways, const char *id)
{
    return find(ways, id);
}

static struct trace_way *make(struct trace_ways *ways, const char *id)
{
    struct trace_way *way = calloc(1, sizeof(*way));

    if (!way)
        return NULL;
    snprintf(way->id, sizeof(way->id), "%s", id);
    if (hash_insert(&ways->by_id, &way->by_id, hash_text(0, way->id, strlen(way->id))) < 0) {
        free(way);
        return NULL;
    }
    list_push_back(&ways->all, &way->link);
    return way;
}

static int add_span(struct trace_spans *spans, const struct trace_span *span)
{
    struct trace_span *more = realloc(spans->all, (spans->n + 1) * sizeof(*more));

    if (!more)
        return -ENOMEM;
    more[spans->n++] = *span;
    spans->all = more;
    return 0;
}

static int add_own(struct trace_way *way, const struct trace_line *line, const struct trace_span *span)
{
    if (strcmp(line->category, "job") == 0) {
        way->job = *span;
        way->uid = line->uid;
        way->exit = line->exit;
        snprintf(way->name, sizeof(way->name), "%s", line->name);
        snprintf(way->state, sizeof(way->state), "%s", line->state);
        snprintf(way->traceparent, sizeof(way->traceparent), "%s", line->traceparent);
    } else if (strcmp(line->name, "arrived") == 0) {
        way->arrived = *span;
    } else if (strcmp(line->name, "answer") == 0) {
        way->answer = *span;
    } else if (strcmp(line->name, "handed over") == 0) {
        return add_span(&way->handed, span);
    }
    return 0;
}

int trace_ways_add(struct trace_ways *ways, const struct trace_line *line, bool own)
{
    const struct trace_span span = {.from = line->from, .to = line->to, .process = line->process, .lane = line->lane};

    if (line->phase != 'X' || strlen(line->job) != TRACE_ID - 1)
        return 0;
    struct trace_way *way = find(ways, line->job);
    if (own && !way && !(way = make(ways, line->job)))
        return -ENOMEM;
    if (own)
        return add_own(way, line, &span);
    return way && trace_line_works(line) && strcmp(line->category, "task") != 0 ? add_span(&way->runs, &span) : 0;
}

const struct trace_span *trace_way_handed(const struct trace_way *way, const struct trace_span *run)
{
    const struct trace_span *last = NULL;

    for (size_t i = 0; i < way->handed.n; i++)
        if (way->handed.all[i].from <= run->from && (!last || last->from < way->handed.all[i].from))
            last = &way->handed.all[i];
    return last;
}
