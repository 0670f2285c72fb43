/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c: requests of HTTP.
 * Owns the listeners, the requests that wait for an answer of wsd, the pages that watch, and the last look.
 * Keeps: wsd is looked at only while a page watches, a request waits or the history is kept. A request gets no answer
 * when its connection has ended, and nothing of it stays. A page that does not read is left out of looks.
 * Does not ask wsd (collector.c), judge requests (guard.c), or see how fast they come (pace.c). */
#include "web/server.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "web/collector.h"
#include "web/history.h"
#include "web/metrics.h"
#include "web/pace.h"
#include "web/page.h"

#define LISTENERS   16u
#define FRESH_USEC  900000u         /* a look that is not older answers at once */
#define TICK_USEC   1000000u        /* between two looks */
#define ROOM_USEC   100000u         /* between two counts of connections, where there are too many */
#define UNREAD_MAX  (1024u * 1024u) /* of a page that watches, in bytes */
#define UNAVAILABLE 503
#define CHART       "/chart.js"

enum waits_for { WAITS_LOOK, WAITS_METRICS, WAITS_OPENMETRICS, WAITS_ERRAND };

/* A request that wsd has to answer. */
struct waiter {
    struct list link; /* server->waiters */
    struct server *server;
    struct evhttp_request *request; /* NULL: its connection has ended */
    enum waits_for what;
};

/* A page that watches. */
struct stream {
    struct list link; /* server->streams */
    struct server *server;
    struct evhttp_request *request;
};

struct server {
    struct server_options options;
    struct evhttp *http;
    struct evconnlistener *listeners[LISTENERS];
    uint32_t n_listeners, n_waiters, n_streams;
    struct event *tick, *room;
    struct collector *collector;
    struct list waiters, streams;
    json_t *look, *before; /* the last two */
    char *text;            /* the last one */
    uint64_t look_usec;    /* when it came; 0: never */
};

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void add_header(struct evhttp_request *request, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(request), name, value);
}

/* Nothing of another host is loaded, no other site may show it in a frame, and nothing guesses its type. */
static void add_headers(struct evhttp_request *request, const char *type, const char *cache)
{
    add_header(request, "Content-Type", type);
    add_header(request, "Cache-Control", cache);
    add_header(request, "Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
               "base-uri 'none'; form-action 'self'; frame-ancestors 'none'");
    add_header(request, "X-Content-Type-Options", "nosniff");
    add_header(request, "Referrer-Policy", "no-referrer");
}

static void answer(struct evhttp_request *request, int code, const char *type, const void *data, size_t size)
{
    struct evbuffer *body = evbuffer_new();

    add_headers(request, type, "no-store");
    if (body)
        evbuffer_add(body, data, size);
    evhttp_send_reply(request, code, NULL, body);
    if (body)
        evbuffer_free(body);
}

static void answer_json(struct evhttp_request *request, int code, json_t *j)
{
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

    if (text)
        answer(request, code, "application/json", text, strlen(text));
    else
        answer(request, UNAVAILABLE, "text/plain", "out of memory\n", 14);
    free(text);
    json_decref(j);
}

static void answer_error(struct evhttp_request *request, int code, const char *words)
{
    json_t *j = json_pack("{s:s}", "error", words);

    answer_json(request, code, j ? j : json_pack("{s:s}", "error", "refused, in words that are no UTF-8"));
}

static void answer_metrics(const struct server *s, struct evhttp_request *request, bool openmetrics)
{
    struct buffer text = {0};

    if (metrics_write(&text, s->look, openmetrics) == 0)
        answer(request, HTTP_OK,
               openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                           : "text/plain; version=0.0.4; charset=utf-8",
               buffer_data(&text), buffer_size(&text));
    else
        answer_error(request, UNAVAILABLE, "out of memory");
    buffer_deinit(&text);
}

/* --- waiting requests --------------------------------------------------------------------------------------------- */

/* The connection of a request that was not answered has ended. evhttp has let go of the request then, unless it is being
 * freed itself. */
static void drop_request(struct evhttp_request *request)
{
    if (!evhttp_request_get_connection(request))
        evhttp_request_free(request);
}

static void waiter_closed(struct evhttp_connection *connection, void *userdata)
{
    struct waiter *w = userdata;

    drop_request(w->request);
    w->request = NULL;
}

static void waiter_free(struct waiter *w)
{
    if (w->request)
        evhttp_connection_set_closecb(evhttp_request_get_connection(w->request), NULL, NULL);
    list_remove(&w->link);
    w->server->n_waiters--;
    free(w);
}

/* NULL: that was answered. */
static struct waiter *waiter_new(struct server *s, struct evhttp_request *request, enum waits_for what)
{
    struct waiter *w = s->n_waiters < SERVER_WAITERS ? calloc(1, sizeof(*w)) : NULL;

    if (!w) {
        answer_error(request, UNAVAILABLE, "too many requests wait: try again in a second");
        return NULL;
    }
    *w = (struct waiter){.server = s, .request = request, .what = what};
    list_push_back(&s->waiters, &w->link);
    s->n_waiters++;
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), waiter_closed, w);
    return w;
}

static void answer_look(const struct server *s, struct evhttp_request *request, enum waits_for what, const char *why)
{
    if (what != WAITS_LOOK)
        answer_metrics(s, request, what == WAITS_OPENMETRICS);
    else if (s->text)
        answer(request, HTTP_OK, "application/json", s->text, strlen(s->text));
    else
        answer_error(request, UNAVAILABLE, why);
}

/* Answers with a look, or waits for one. */
static void want_look(struct server *s, struct evhttp_request *request, enum waits_for what)
{
    if (s->text && clock_monotonic_usec() - s->look_usec < FRESH_USEC)
        answer_look(s, request, what, "");
    else if (waiter_new(s, request, what))
        collector_look(s->collector);
}

/* --- watching pages ----------------------------------------------------------------------------------------------- */

static void stream_closed(struct evhttp_connection *connection, void *userdata)
{
    struct stream *t = userdata;

    drop_request(t->request);
    list_remove(&t->link);
    t->server->n_streams--;
    free(t);
}

/* An event of server-sent events (the HTML standard). `data` is one line. */
static void stream_send(struct stream *t, const char *event, const char *data)
{
    struct bufferevent *connection = evhttp_connection_get_bufferevent(evhttp_request_get_connection(t->request));
    struct evbuffer *chunk;

    if (evbuffer_get_length(bufferevent_get_output(connection)) > UNREAD_MAX || !(chunk = evbuffer_new()))
        return;
    evbuffer_add_printf(chunk, "event: %s\ndata: ", event);
    evbuffer_add(chunk, data, strlen(data));
    evbuffer_add(chunk, "\n\n", 2);
    evhttp_send_reply_chunk(t->request, chunk);
    evbuffer_free(chunk);
}

static void watch(struct server *s);

static void stream_new(struct server *s, struct evhttp_request *request)
{
    bool is_head = evhttp_request_get_command(request) == EVHTTP_REQ_HEAD; /* it would never end */
    struct stream *t = s->n_streams < SERVER_STREAMS && !is_head ? calloc(1, sizeof(*t)) : NULL;

    if (is_head) {
        answer_error(request, HTTP_BADMETHOD, "events are for GET");
        return;
    }
    if (!t) {
        answer_error(request, UNAVAILABLE, "too many pages are open: close one");
        return;
    }
    *t = (struct stream){.server = s, .request = request};
    list_push_back(&s->streams, &t->link);
    s->n_streams++;
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), stream_closed, t);
    add_headers(request, "text/event-stream", "no-store");
    evhttp_send_reply_start(request, HTTP_OK, NULL);
    if (s->text)
        stream_send(t, "look", s->text);
    watch(s);
}

/* --- looks -------------------------------------------------------------------------------------------------------- */

/* What the history keeps. `counter` of wsd; a rate is its growth in a second. */
static const struct {
    const char *name, *counter;
    bool rate;
} series[] = {
    {"succeeded", "jobs_succeeded", true},
    {"failed", "jobs_failed", true},
    {"cancelled", "jobs_cancelled", true},
    {"timed_out", "jobs_timed_out", true},
    {"crashed", "jobs_crashed", true},
    {"interrupted", "jobs_interrupted", true},
    {"refused", "jobs_refused", true},
    {"direct", "direct_calls", true},
    {"open", "jobs_open", false},
    {"queued", "jobs_queued", false},
    {"handed_over", "jobs_handed_over", false},
};
_Static_assert(ARRAY_SIZE(series) == SERVER_SERIES, "the history has a place for each series");
_Static_assert(SERVER_SERIES <= HISTORY_SERIES, "and room");

static double counter_of(const json_t *look, const char *name)
{
    return (double)json_integer_value(json_object_get(json_object_get(look, "counters"), name));
}

static uint64_t time_of(const json_t *look)
{
    return (uint64_t)json_integer_value(json_object_get(look, "time_usec"));
}

static void note(struct server *s)
{
    float values[HISTORY_SERIES];
    double seconds = s->before ? (double)(int64_t)(time_of(s->look) - time_of(s->before)) * 1e-6 : 0;

    for (size_t i = 0; i < ARRAY_SIZE(series); i++) {
        double now = counter_of(s->look, series[i].counter);
        double grown = now - counter_of(s->before, series[i].counter);

        if (!series[i].rate)
            values[i] = (float)now;
        else if (seconds > 0 && seconds < 5 && grown >= 0)
            values[i] = (float)(grown / seconds);
        else
            values[i] = NAN; /* after a gap, or of another wsd */
    }
    history_add(s->options.history, time_of(s->look) / 1000000, values);
}

static void looked(const json_t *look, const char *why, void *context)
{
    struct server *s = context;

    json_decref(s->before);
    s->before = s->look;
    s->look = look ? json_deep_copy(look) : NULL;
    free(s->text);
    s->text = s->look ? json_dumps(s->look, JSON_COMPACT) : NULL;
    s->look_usec = clock_monotonic_usec();
    if (s->look)
        note(s);
    _cleanup_(json_decrefp) json_t *away = json_pack("{s:s}", "error", why);
    _cleanup_(freep) char *away_text = away ? json_dumps(away, JSON_COMPACT) : NULL;
    list_for_each_entry_safe (struct stream, t, after_t, &s->streams, link)
        stream_send(t, s->text ? "look" : "away", s->text ? s->text : away_text ? away_text : "{}");
    list_for_each_entry_safe (struct waiter, w, after_w, &s->waiters, link) {
        struct evhttp_request *request = w->request;
        enum waits_for what = w->what;

        if (what == WAITS_ERRAND)
            continue;
        waiter_free(w);
        if (request)
            answer_look(s, request, what, why);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    struct server *s = userdata;

    if (s->n_streams || s->options.always)
        collector_look(s->collector);
    else
        event_del(s->tick);
}

/* Looks each second from now on, as long as that is wanted. */
static void watch(struct server *s)
{
    collector_look(s->collector);
    if (!event_pending(s->tick, EV_TIMEOUT, NULL))
        event_add(s->tick, &(struct timeval){.tv_sec = TICK_USEC / 1000000});
}

/* --- /api/history ------------------------------------------------------------------------------------------------- */

static void add_sample(uint64_t time, const float *values, void *context)
{
    json_t *one = json_array();

    json_array_append_new(one, json_integer((json_int_t)time));
    for (size_t i = 0; i < ARRAY_SIZE(series); i++)
        json_array_append_new(one, isnan(values[i]) ? json_null() : json_real(round((double)values[i] * 1000) / 1000));
    json_array_append_new(context, one);
}

static void answer_history(const struct server *s, struct evhttp_request *request, const char *span)
{
    bool week = span && strcmp(span, "week") == 0;
    json_t *names = json_array(), *samples = json_array();

    if (!week && span && strcmp(span, "hour") != 0) {
        answer_error(request, HTTP_BADREQUEST, "span: hour or week is wanted");
    } else {
        for (size_t i = 0; i < ARRAY_SIZE(series); i++)
            json_array_append_new(names, json_string(series[i].name));
        history_each(s->options.history, week ? HISTORY_WEEK : HISTORY_HOUR, add_sample, samples);
        answer_json(request, HTTP_OK,
                    json_pack("{s:i,s:O,s:O}", "step", week ? 60 : 1, "series", names, "samples", samples));
    }
    json_decref(names);
    json_decref(samples);
}

/* --- one job, and what changes something -------------------------------------------------------------------------- */

static int status_of(int error)
{
    switch (error) {
    case 0:
        return HTTP_OK;
    case -EINVAL:
        return HTTP_BADREQUEST;
    case -ENOENT:
        return HTTP_NOTFOUND;
    case -EACCES:
        return 403;
    default:
        return UNAVAILABLE;
    }
}

static const char *const actions[ERRAND_KINDS] = {
    [ERRAND_CANCEL] = "cancel", [ERRAND_REQUEUE] = "requeue", [ERRAND_DROP] = "drop",      [ERRAND_PAUSE] = "pause",
    [ERRAND_RESUME] = "resume", [ERRAND_LIMIT] = "limit",     [ERRAND_RELEASE] = "release"};

static void errand_done(struct errand *e, int error, const char *words, const json_t *result)
{
    struct waiter *w = e->context;
    struct evhttp_request *request = w->request;

    waiter_free(w);
    if (!request)
        return;
    if (error < 0)
        answer_error(request, status_of(error), words);
    else
        answer_json(request, HTTP_OK, result ? json_deep_copy(result) : json_object());
}

static void run_errand(struct server *s, struct evhttp_request *request, struct errand *e)
{
    struct waiter *w = waiter_new(s, request, WAITS_ERRAND);

    if (!w)
        return;
    e->done = errand_done;
    e->context = w;
    if (collector_do(s->collector, e) == 0)
        return;
    waiter_free(w);
    answer_error(request, UNAVAILABLE, "too many requests wait: try again in a second");
}

/* A text of the request, "" where there is none. Returns NULL, or what is wrong with it. */
static const char *take_text(const json_t *from, const char *key, char *to, size_t room)
{
    const json_t *value = json_object_get(from, key);

    if (value && !json_is_string(value))
        return "id, plugin and function are texts";
    return (size_t)snprintf(to, room, "%s", value ? json_string_value(value) : "") < room ? NULL : "a text is too long";
}

static const char *take_number(const json_t *from, struct errand *e)
{
    const json_t *value = json_object_get(from, "limit");
    json_int_t number = json_integer_value(value);

    if (value ? !json_is_integer(value) || number < 0 || number > UINT32_MAX : e->kind == ERRAND_LIMIT)
        return "limit: a number of jobs is wanted; 0 takes the limit away";
    e->number = (uint32_t)number;
    return NULL;
}

/* Returns NULL, or what is wrong with it. */
static const char *read_action(const json_t *from, struct errand *e)
{
    const char *name = json_string_value(json_object_get(from, "action"));
    const char *why;

    for (e->kind = 0; e->kind < ERRAND_KINDS; e->kind++)
        if (name && actions[e->kind] && strcmp(actions[e->kind], name) == 0)
            break;
    if (e->kind == ERRAND_KINDS)
        return "action: cancel, requeue, drop, pause, resume, limit or release is wanted";
    why = take_text(from, "id", e->id, sizeof(e->id));
    why = why ? why : take_text(from, "plugin", e->plugin, sizeof(e->plugin));
    why = why ? why : take_text(from, "function", e->function, sizeof(e->function));
    return why ? why : take_number(from, e);
}

/* The person that a proxy names, and else the holder of the token. */
static void name_person(const char *named, struct errand *e)
{
    snprintf(e->person, sizeof(e->person), "%s", named ? named : "the holder of the page's token");
}

static void act(struct server *s, struct evhttp_request *request, const char *person)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    size_t size = evbuffer_get_length(body);
    json_error_t error;
    json_t *from = size <= SERVER_BODY ? json_loadb((const char *)evbuffer_pullup(body, -1), size, 0, &error) : NULL;
    struct errand e = {0};
    const char *why = json_is_object(from) ? read_action(from, &e) : "a JSON object is wanted";

    json_decref(from);
    if (why) {
        answer_error(request, HTTP_BADREQUEST, why);
        return;
    }
    name_person(person, &e);
    log_notice("wsd-web: %s %s%s%s%s for %s", actions[e.kind], e.id, e.plugin, *e.function ? ":" : "", e.function,
               e.person);
    run_errand(s, request, &e);
}

static void answer_job(struct server *s, struct evhttp_request *request, const char *id)
{
    struct errand e = {.kind = ERRAND_JOB};

    if ((size_t)snprintf(e.id, sizeof(e.id), "%s", id) >= sizeof(e.id))
        answer_error(request, HTTP_NOTFOUND, "this is no id of a job");
    else
        run_errand(s, request, &e);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void answer_page(struct evhttp_request *request, const struct page_file *f)
{
    answer(request, HTTP_OK, f->type, f->data, f->size);
}

/* Chart.js, which is the system's. */
static void answer_chart(const struct server *s, struct evhttp_request *request)
{
    struct evbuffer *body = evbuffer_new();
    struct stat st;
    int fd = open(s->options.chart, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0 || !body || evbuffer_add_file(body, fd, 0, st.st_size) < 0) {
        if (fd >= 0)
            close(fd);
        answer_error(request, HTTP_NOTFOUND, "there is no Chart.js: install libjs-chart.js");
    } else {
        add_headers(request, "text/javascript", "max-age=3600");
        evhttp_send_reply(request, HTTP_OK, NULL, body); /* which closes the file */
    }
    if (body)
        evbuffer_free(body);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static bool wants_openmetrics(struct evhttp_request *request)
{
    const char *accept = evhttp_find_header(evhttp_request_get_input_headers(request), "Accept");

    return accept && strstr(accept, "application/openmetrics-text");
}

static void get(struct server *s, struct evhttp_request *request, const char *path)
{
    const struct page_file *file = page_find(path);
    struct evkeyvalq query = {0};

    if (file)
        answer_page(request, file);
    else if (strcmp(path, CHART) == 0)
        answer_chart(s, request);
    else if (strcmp(path, "/metrics") == 0)
        want_look(s, request, wants_openmetrics(request) ? WAITS_OPENMETRICS : WAITS_METRICS);
    else if (strcmp(path, "/api/look") == 0)
        want_look(s, request, WAITS_LOOK);
    else if (strcmp(path, "/api/events") == 0)
        stream_new(s, request);
    else if (strncmp(path, "/api/jobs/", 10) == 0)
        answer_job(s, request, path + 10);
    else if (strcmp(path, "/api/history") == 0) {
        const char *text = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));

        if (text && evhttp_parse_query_str(text, &query) < 0)
            text = NULL;
        answer_history(s, request, text ? evhttp_find_header(&query, "span") : NULL);
        evhttp_clear_headers(&query);
    } else
        answer_error(request, HTTP_NOTFOUND, "there is nothing here: / is the page");
}

static evutil_socket_t fd_of(struct evhttp_request *request)
{
    return bufferevent_getfd(evhttp_connection_get_bufferevent(evhttp_request_get_connection(request)));
}

/* The value of a header; NULL where there is none, or more than one. */
static const char *only_header(struct evhttp_request *request, const char *name)
{
    const char *value = NULL;

    for (struct evkeyval *h = evhttp_request_get_input_headers(request)->tqh_first; h; h = h->next.tqe_next) {
        if (strcasecmp(h->key, name) != 0)
            continue;
        if (value)
            return NULL;
        value = h->value;
    }
    return value;
}

/* The person that a proxy names. A second name is what the proxy passed on, so neither counts. The name is believed at
 * a Unix socket only, whose mode says which users reach it: by TCP, each user of the machine could give one. */
static const char *person_of(const struct server *s, struct evhttp_request *request)
{
    const char *header = s->options.guard->person_header;
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);

    if (!header || getsockname(fd_of(request), (struct sockaddr *)&own, &size) < 0 || own.ss_family != AF_UNIX)
        return NULL;
    return only_header(request, header);
}

/* Others wait until a connection ends: then each ends with its answer, however often its client would ask again. */
static bool is_full(const struct server *s)
{
    return event_pending(s->room, EV_TIMEOUT, NULL);
}

static void on_request(struct evhttp_request *request, void *userdata)
{
    struct server *s = userdata;
    struct evkeyvalq *in = evhttp_request_get_input_headers(request);
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request)), *why;
    const struct guard_request asked = {.changes = evhttp_request_get_command(request) == EVHTTP_REQ_POST,
                                        .is_public = path && (page_find(path) || strcmp(path, CHART) == 0),
                                        .host = evhttp_find_header(in, "Host"),
                                        .origin = evhttp_find_header(in, "Origin"),
                                        .authorization = evhttp_find_header(in, "Authorization"),
                                        .marker = evhttp_find_header(in, "X-Wsd-Web"),
                                        .person = person_of(s, request)};
    int code = guard_check(s->options.guard, &asked, &why);

    pace_whole(fd_of(request));
    if (is_full(s))
        add_header(request, "Connection", "close");
    if (code)
        answer_error(request, code, why);
    else if (!asked.changes)
        get(s, request, path ? path : "");
    else if (path && strcmp(path, "/api/act") == 0)
        act(s, request, asked.person);
    else
        answer_error(request, HTTP_BADMETHOD, "only /api/act takes a POST");
}

/* --- connections -------------------------------------------------------------------------------------------------- */

_Static_assert(SERVER_CONNECTIONS + 100 <= PACE_DESCRIPTORS, "there is room for what is open beside connections");

/* Whether another connection finds room. The kernel gives the lowest number that is free: where only those below the
 * limit are given, no more than that are open. */
static bool has_room(const struct server *s)
{
    int lowest = fcntl(evconnlistener_get_fd(s->listeners[0]), F_DUPFD_CLOEXEC, 0);

    if (lowest >= 0)
        close(lowest);
    return lowest >= 0 && lowest < (int)SERVER_CONNECTIONS;
}

static void let_in(struct server *s, bool more)
{
    for (uint32_t i = 0; i < s->n_listeners; i++)
        (void)(more ? evconnlistener_enable(s->listeners[i]) : evconnlistener_disable(s->listeners[i]));
}

static void on_room(evutil_socket_t fd, short what, void *userdata)
{
    struct server *s = userdata;
    bool more = has_room(s);

    let_in(s, more);
    if (!more)
        event_add(s->room, &(struct timeval){.tv_usec = ROOM_USEC});
}

/* Called for each connection, which is in already. */
static struct bufferevent *on_connection(struct event_base *base, void *userdata)
{
    struct bufferevent *connection = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    struct server *s = userdata;

    if (!has_room(s)) {
        let_in(s, false);
        event_add(s->room, &(struct timeval){.tv_usec = ROOM_USEC});
    }
    if (connection)
        pace_watch(connection);
    return connection;
}

int server_listen(struct server *s, int fd)
{
    (void)evutil_make_socket_nonblocking(fd); /* those of systemd block */
    struct evconnlistener *l =
        s->n_listeners < LISTENERS
            ? evconnlistener_new(s->options.base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd)
            : NULL;

    if (!l || !evhttp_bind_listener(s->http, l)) {
        if (l)
            evconnlistener_free(l);
        else
            close(fd);
        return -ENOMEM;
    }
    s->listeners[s->n_listeners++] = l;
    return 0;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

int server_new(struct server **ret, const struct server_options *options)
{
    struct server *s = calloc(1, sizeof(*s));
    const struct collector_options asks = {
        .base = options->base, .socket = options->socket, .fleet = options->fleet, .looked = looked, .context = s};

    if (!s)
        return -ENOMEM;
    s->options = *options;
    list_init(&s->waiters);
    list_init(&s->streams);
    s->http = evhttp_new(options->base);
    s->tick = event_new(options->base, -1, EV_PERSIST, on_tick, s);
    s->room = evtimer_new(options->base, on_room, s);
    if (!s->http || !s->tick || !s->room || collector_new(&s->collector, &asks) < 0) {
        server_free(s);
        return -ENOMEM;
    }
    evhttp_set_max_headers_size(s->http, SERVER_HEADERS);
    evhttp_set_max_body_size(s->http, SERVER_BODY);
    evhttp_set_timeout(s->http, PACE_IDLE);
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST);
    evhttp_set_gencb(s->http, on_request, s);
    evhttp_set_bevcb(s->http, on_connection, s);
    if (s->options.always)
        watch(s);
    *ret = s;
    return 0;
}

struct server *server_free(struct server *s)
{
    if (!s)
        return NULL;
    s->collector = collector_free(s->collector);
    if (s->http)
        evhttp_free(s->http); /* listeners and connections, which tell their waiters and streams */
    list_for_each_entry_safe (struct waiter, w, after_w, &s->waiters, link)
        waiter_free(w);
    if (s->tick)
        event_free(s->tick);
    if (s->room)
        event_free(s->room);
    json_decref(s->look);
    json_decref(s->before);
    free(s->text);
    free(s);
    return NULL;
}
