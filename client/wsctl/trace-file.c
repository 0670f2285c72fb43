/* SPDX-License-Identifier: Apache-2.0
 *
 * trace-file.c: takes a trace from wsd and writes it, with arrows from wsd to the workers and back.
 * Owns the files. One thread.
 * Keeps: what is in the file is JSON, whatever an executor said, and what was there before until that is complete.
 * Each arrow has both ends, the first one not behind the second.
 * Does not wait, or choose what is traced. */
#include "trace-file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/code.h"
#include "connect.h"
#include "json-parse.h"
#include "otlp.h"
#include "print.h"

#define LINE_MAX_      4096u       /* the pool and wsd write at most 1,024 */
#define CLIENT_PROCESS 1000000001u /* in the trace; wsd's is 1000000000, executors count from 1 */

/* A line that goes into the file if what comes around it is of the job. */
struct held {
    char *text;
    uint64_t at;
};

/* Only one job: the lines of the lane that is being read, which wait for the end of what they are in. */
struct filter {
    bool on;
    char job[TRACE_ID];
    char *name; /* of the lane; NULL: it was written */
    struct held *held;
    size_t n, room;
};

struct trace_file {
    const struct ctl *ctl;
    const char *path;
    struct output out, otlp_out;
    FILE *stream, *otlp; /* into them */
    struct buffer rest;  /* the beginning of a line */
    struct trace_ways ways;
    struct filter filter;
    uint64_t n_events, n_bad, n_arrows;
    size_t n_executors;
    bool own;    /* the lines are of wsd's own part */
    bool failed; /* something is missing */
};

static int no_memory(void)
{
    return ctl_error(CODE_IO, "trace", "out of memory");
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int write_failed(const struct trace_file *f)
{
    return ctl_error(CODE_IO, f->path, "%s", strerror(errno));
}

static int write_line(struct trace_file *f, const char *line, size_t size)
{
    if (fputs(f->n_events++ ? ",\n" : "", f->stream) < 0 || fwrite(line, 1, size, f->stream) != size)
        return write_failed(f);
    return 0;
}

__attribute__((format(printf, 2, 3))) static int write_format(struct trace_file *f, const char *format, ...)
{
    char line[LINE_MAX_];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    return write_line(f, line, MIN((size_t)n, sizeof(line) - 1));
}

#define TIME       "%" PRIu64 ".%03u"
#define USEC(nsec) (nsec) / 1000u, (unsigned)((nsec) % 1000u)

struct place {
    uint64_t process, lane, at;
};

/* From one lane to another. */
static int write_arrow(struct trace_file *f, const char *job, const char *name, struct place from, struct place to)
{
    static const char *const ends[] = {"\"ph\":\"s\"", "\"ph\":\"f\",\"bp\":\"e\""};
    const struct place *places[] = {&from, &to};
    int r = 0;

    f->n_arrows++;
    for (int i = 0; i < 2 && r == 0; i++)
        r = write_format(f,
                         "{%s,\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"ts\":" TIME
                         ",\"cat\":\"way\",\"name\":\"%s\",\"id\":\"%s.%" PRIu64 "\"}",
                         ends[i], places[i]->process, places[i]->lane, USEC(places[i]->at), name, job, f->n_arrows);
    return r;
}

/* --- one job ------------------------------------------------------------------------------------------------------ */

static void drop_held(struct filter *filter)
{
    while (filter->n > 0)
        free(filter->held[--filter->n].text);
}

static int hold(struct trace_file *f, const char *text, size_t size, uint64_t at)
{
    struct filter *filter = &f->filter;

    if (filter->n == filter->room) {
        size_t room = filter->room ? 2 * filter->room : 64;
        struct held *held = realloc(filter->held, room * sizeof(*held));

        if (!held)
            return no_memory();
        filter->held = held;
        filter->room = room;
    }
    char *copy = strndup(text, size);
    if (!copy)
        return no_memory();
    filter->held[filter->n++] = (struct held){.text = copy, .at = at};
    return 0;
}

/* Something of a job has ended that began at `from`: what is held since then lies in it. */
static int settle(struct trace_file *f, uint64_t from, bool wanted)
{
    struct filter *filter = &f->filter;
    size_t kept = 0;
    int r = 0;

    if (wanted && filter->name)
        r = write_line(f, filter->name, strlen(filter->name));
    if (wanted)
        free(TAKE(filter->name));
    for (size_t i = 0; i < filter->n; i++) {
        struct held *h = &filter->held[i];

        if (h->at < from) {
            filter->held[kept++] = *h;
            continue;
        }
        if (wanted && r == 0)
            r = write_line(f, h->text, strlen(h->text));
        free(h->text);
    }
    filter->n = kept;
    return r;
}

static bool is_lane_name(const struct trace_line *line)
{
    return line->phase == 'M' && strcmp(line->name, "thread_name") == 0;
}

/* A line of wsd's own part. */
static int filter_own(struct trace_file *f, const struct trace_line *line, const char *text, size_t size)
{
    bool is_job = strcmp(line->category, "job") == 0;
    int r = 0;

    if (is_lane_name(line) || (line->phase != 'M' && strcmp(line->job, f->filter.job) != 0))
        return 0;
    if (is_job)
        r = write_format(f,
                         "{\"ph\":\"M\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64
                         ",\"name\":\"thread_name\",\"args\":{\"name\":\"jobs %" PRIu64 "\"}}",
                         line->process, line->lane, line->lane);
    return r ? r : write_line(f, text, size);
}

/* A line of an executor. What is within something comes before it, lane by lane. */
static int filter_line(struct trace_file *f, const struct trace_line *line, const char *text, size_t size)
{
    struct filter *filter = &f->filter;
    bool wanted = strcmp(line->job, filter->job) == 0;

    if (is_lane_name(line)) {
        drop_held(filter);
        free(filter->name);
        filter->name = strndup(text, size);
        return filter->name ? 0 : no_memory();
    }
    if (trace_line_works(line)) {
        int r = settle(f, line->from, wanted);

        return r || !wanted ? r : write_line(f, text, size);
    }
    if (line->phase == 'M' || strcmp(line->category, "lost") == 0)
        return write_line(f, text, size);
    bool within = strcmp(line->category, "join") == 0 || strcmp(line->category, "steal") == 0;
    return within ? hold(f, text, size, line->from) : 0;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int put_line(struct trace_file *f, const char *text, size_t size)
{
    struct json_value *value = NULL;
    int is_event = size <= LINE_MAX_ ? json_read_object(text, size, &value) : 0;

    if (is_event < 0)
        return no_memory();
    if (!is_event) {
        f->n_bad++;
        return 0;
    }
    struct trace_line line = trace_line_of(value);
    int r = trace_ways_add(&f->ways, &line, f->own) < 0 ? no_memory()
            : !f->filter.on                             ? write_line(f, text, size)
            : f->own                                    ? filter_own(f, &line, text, size)
                                                        : filter_line(f, &line, text, size);
    json_free(value);
    return r;
}

static int on_events(const void *data, size_t size, void *userdata)
{
    struct trace_file *f = userdata;
    const char *end;
    int r = 0;

    if (buffer_put(&f->rest, data, size) < 0)
        return no_memory();
    while (r == 0 && (end = memchr(buffer_data(&f->rest), '\n', buffer_size(&f->rest)))) {
        const char *line = (const char *)buffer_data(&f->rest);

        r = put_line(f, line, (size_t)(end - line));
        buffer_drop(&f->rest, (size_t)(end - line) + 1);
    }
    if (r == 0 && buffer_size(&f->rest) > LINE_MAX_) { /* that is no line */
        buffer_deinit(&f->rest);
        f->n_bad++;
    }
    return r;
}

static int on_executor(const struct wsd_executor_info *info, void *userdata)
{
    struct trace_file *f = userdata;
    char what[32];

    buffer_deinit(&f->rest); /* half a line of the one before */
    drop_held(&f->filter);
    f->own = info->executor == 0 && !info->error;
    f->n_executors += !f->own;
    f->failed |= info->error != 0;
    snprintf(what, sizeof(what), f->own ? "wsd" : info->executor ? "executor %u" : "an executor", info->executor);
    if (info->error == ESRCH)
        ctl_error(0, what, "it ended while it was traced; its events are gone");
    else if (info->error == ETIMEDOUT)
        ctl_error(0, what, "it does not answer; its events are not in the trace");
    else if (info->error == ENOSPC)
        ctl_error(0, what, "its trace is too large; the rest was cut off");
    else if (info->error)
        ctl_error(0, what, "%s", strerror(info->error));
    else if (info->lost && !f->ctl->quiet)
        ctl_error(0, what, "%" PRIu64 " older events were overwritten; trace for a shorter time", info->lost);
    return 0;
}

/* --- what wsctl adds ---------------------------------------------------------------------------------------------- */

/* A moment of the span, as near as can be to `at`. */
static struct place within(const struct trace_span *span, uint64_t at)
{
    uint64_t last = span->to > span->from ? span->to - 1 : span->to;

    return (struct place){.process = span->process, .lane = span->lane, .at = MIN(MAX(at, span->from), last)};
}

/* From one span into another that begins later, by the clock at least; else nothing. */
static int join(struct trace_file *f, const char *job, const char *name, const struct trace_span *from, uint64_t at,
                const struct trace_span *to)
{
    struct place begin = within(from, at), end = within(to, MAX(begin.at, to->from));

    begin.at = MIN(begin.at, end.at);
    return begin.at < from->from ? 0 : write_arrow(f, job, name, begin, end);
}

static int put_arrows(struct trace_file *f)
{
    int r = 0;

    list_for_each_entry (const struct trace_way, way, &f->ways.all, link) {
        for (size_t i = 0; i < way->runs.n && r == 0; i++) {
            const struct trace_span *run = &way->runs.all[i], *handed = trace_way_handed(way, run);

            if (f->filter.on && strcmp(f->filter.job, way->id) != 0)
                continue;
            if (handed)
                r = join(f, way->id, "hand over", handed, handed->from, run);
            if (r == 0 && i + 1 == way->runs.n && way->answer.from)
                r = join(f, way->id, "answer", run, MIN(run->to, way->answer.from), &way->answer);
        }
    }
    return r;
}

static int put_client_span(struct trace_file *f, const char *name, uint64_t from, uint64_t to)
{
    return write_format(f,
                        "{\"ph\":\"X\",\"pid\":%u,\"tid\":0,\"ts\":" TIME ",\"dur\":" TIME
                        ",\"cat\":\"client\",\"name\":\"%s\",\"args\":{\"job\":\"%s\"}}",
                        CLIENT_PROCESS, USEC(from), USEC(to - from), name, f->filter.job);
}

static int put_client(struct trace_file *f, const struct trace_client *client)
{
    const struct trace_way *way = trace_ways_find(&f->ways, f->filter.job);
    const struct trace_span own = {
        .process = CLIENT_PROCESS, .from = client->spans[0].from, .to = client->spans[client->n - 1].to};
    int r = write_format(f,
                         "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"wsctl\"}},\n"
                         "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":-2}},\n"
                         "{\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"wsctl\"}}",
                         CLIENT_PROCESS, CLIENT_PROCESS, CLIENT_PROCESS);

    if (r == 0)
        r = put_client_span(f, "wsctl submit", own.from, own.to);
    for (size_t i = 0; i < client->n && r == 0; i++)
        r = put_client_span(f, client->spans[i].name, client->spans[i].from, client->spans[i].to);
    if (r == 0 && way && way->job.to && client->submit)
        r = join(f, way->id, "submit", &own, client->submit, &way->job);
    if (r == 0 && way && way->answer.from && client->done)
        r = join(f, way->id, "told", &way->answer, way->answer.from,
                 &(struct trace_span){.process = CLIENT_PROCESS, .from = client->done, .to = own.to});
    return r;
}

static uint64_t clock_nsec(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int put_otlp(struct trace_file *f, const struct trace_client *client)
{
    uint64_t offset = clock_nsec(CLOCK_REALTIME) - clock_nsec(CLOCK_MONOTONIC);
    int r = 0;

    list_for_each_entry (const struct trace_way, way, &f->ways.all, link) {
        if (f->filter.on && strcmp(f->filter.job, way->id) != 0)
            continue;
        if (r == 0)
            r = otlp_write(f->otlp, way, client && client->done ? client->submit : 0, client ? client->done : 0,
                           offset);
    }
    return r ? ctl_error(CODE_IO, f->otlp_out.name, "%s", strerror(errno)) : 0;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static int open_stream(struct output *out, const char *path, FILE **ret)
{
    int r = output_open(out, path, NULL);

    *ret = r == 0 ? output_stream(out) : NULL;
    return r ? r : *ret ? 0 : CODE_IO;
}

int trace_file_open(const struct ctl *ctl, const char *path, const char *otlp, struct trace_file **ret)
{
    struct trace_file *f = calloc(1, sizeof(*f));

    *ret = NULL;
    if (!f)
        return no_memory();
    f->ctl = ctl;
    f->path = path;
    f->otlp_out.fd = -1;
    trace_ways_init(&f->ways);
    int r = open_stream(&f->out, path, &f->stream);
    if (r == 0 && otlp)
        r = open_stream(&f->otlp_out, otlp, &f->otlp);
    *ret = f;
    return r ? trace_file_close(TAKE(*ret), r) : 0;
}

void trace_file_only(struct trace_file *f, const struct wsd_id *job)
{
    f->filter.on = true;
    wsd_id_text(job, f->filter.job);
}

int trace_file_take(struct trace_file *f, struct wsd_client *wsd, const struct trace_client *client)
{
    if (fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", f->stream) < 0)
        return write_failed(f);
    int r = wsd_client_trace_stop(wsd, on_executor, on_events, f);
    if (r < 0)
        return ctl_client_error(wsd, "trace", NULL);
    if (f->n_bad)
        ctl_error(0, "trace", "left out %" PRIu64 " line%s of an executor: not JSON", f->n_bad, plural(f->n_bad));
    f->failed |= f->n_bad > 0;
    if (r == 0)
        r = put_arrows(f);
    if (r == 0 && client)
        r = put_client(f, client);
    if (r == 0 && f->otlp)
        r = put_otlp(f, client);
    return r == 0 && fputs("\n]}\n", f->stream) < 0 ? write_failed(f) : r;
}

static void say_result(const struct trace_file *f)
{
    if (f->ctl->quiet || f->ctl->json || f->stream == stdout || f->otlp == stdout || f->filter.on)
        return;
    if (f->n_executors == 0)
        print_line("%s: no executor ran, so there are no events", f->path);
    else
        print_line("%s: %" PRIu64 " event%s; open it in https://ui.perfetto.dev or chrome://tracing", f->path,
                   f->n_events, plural(f->n_events));
}

static int close_stream(struct output *out, FILE *stream, int r)
{
    int ended = stream ? output_stream_end(out, stream) : 0;

    r = r ? r : ended;
    ended = output_close(out, r == 0);
    return r ? r : ended;
}

int trace_file_close(struct trace_file *f, int r)
{
    r = close_stream(&f->otlp_out, f->otlp, r);
    bool was_open = f->stream;
    r = close_stream(&f->out, f->stream, r);
    if (r == 0 && was_open)
        say_result(f);
    if (r == 0 && f->failed)
        r = CODE_IO;
    drop_held(&f->filter);
    free(f->filter.held);
    free(f->filter.name);
    buffer_deinit(&f->rest);
    trace_ways_deinit(&f->ways);
    free(f);
    return r;
}
