/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c: rings of events, and the Chrome trace format made of them.
 * Owns the rings, one a worker, made by the worker at its first event.
 * trace_record() [owner]; pool_trace_*() [any thread, one at a time by trace.lock], also while workers run.
 * Keeps: a worker never waits for a reader. Events that are overwritten while they are read are left out and counted as
 * lost. Each X event has an end that is not before its beginning.
 * Does not know what a subject is: its name comes from the pool's owner. */
#include "pool/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/worker.h"

#define WORDS     5u /* time, kind and other, the subject's id and name */
#define DEPTH_MAX 65536u
#define OUT_SIZE  65536u
#define LINE_MAX_ 1024u /* of one event's text */

/* One writer. A slot's words are stored with release before `head`, and loaded with acquire before `head` is loaded
 * again. A reader that has read a word of event n then sees a head of at least n, and so knows that the slot's old
 * event is gone. */
struct trace_ring {
    uint32_t events;       /* a power of two [const] */
    _Atomic uint64_t head; /* events so far [atomic: owner's release, acquire by readers] */
    uint64_t begin;        /* [trace.lock] head when the trace began */
    _Atomic uint64_t words[];
};

struct event_copy {
    uint64_t nsec;
    uint32_t kind, other;
    struct pool_subject subject;
};

static uint64_t now_nsec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void trace_init(struct trace *t)
{
    atomic_init(&t->on, false);
    atomic_init(&t->events, TRACE_EVENTS_MAX);
    pthread_mutex_init(&t->lock, NULL);
}

void trace_deinit(struct trace *t)
{
    pthread_mutex_destroy(&t->lock);
}

static size_t ring_size(uint32_t events)
{
    return sizeof(struct trace_ring) + (size_t)events * WORDS * sizeof(uint64_t);
}

void trace_worker_deinit(struct trace_worker *t)
{
    struct trace_ring *r = atomic_load_explicit(&t->ring, memory_order_acquire);

    if (r)
        munmap(r, ring_size(r->events));
    atomic_store_explicit(&t->ring, NULL, memory_order_relaxed);
}

/* --- the worker's side ------------------------------------------------------------------------------------------ */

/* Memory that is only touched as far as it is used. */
static struct trace_ring *ring_new(uint32_t events)
{
    void *map =
        mmap(NULL, ring_size(events), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct trace_ring *r = map;

    if (map == MAP_FAILED)
        return NULL;
    r->events = events;
    return r;
}

void trace_record(struct worker *w, uint32_t kind, uint32_t other)
{
    struct trace_worker *t = &w->trace;
    struct trace_ring *r = atomic_load_explicit(&t->ring, memory_order_relaxed);

    if (!r) {
        r = ring_new(atomic_load_explicit(&w->pool->trace.events, memory_order_relaxed));
        if (!r)
            return; /* no trace of this one */
        atomic_store_explicit(&t->ring, r, memory_order_release);
    }
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    _Atomic uint64_t *at = &r->words[(head & (r->events - 1)) * WORDS];
    const void *name = atomic_load_explicit(&t->subject.name, memory_order_relaxed);

    atomic_store_explicit(&at[0], now_nsec(), memory_order_release);
    atomic_store_explicit(&at[1], (uint64_t)other << 32 | kind, memory_order_release);
    atomic_store_explicit(&at[2], atomic_load_explicit(&t->subject.id[0], memory_order_relaxed), memory_order_release);
    atomic_store_explicit(&at[3], atomic_load_explicit(&t->subject.id[1], memory_order_relaxed), memory_order_release);
    atomic_store_explicit(&at[4], (uint64_t)(uintptr_t)name, memory_order_release);
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

void pool_subject(struct wsd_worker *self, const struct pool_subject *subject)
{
    struct worker *w = (struct worker *)(void *)self;
    struct trace_subject *s = &w->trace.subject;

    if (subject) {
        atomic_store_explicit(&s->id[0], subject->id[0], memory_order_relaxed);
        atomic_store_explicit(&s->id[1], subject->id[1], memory_order_relaxed);
    }
    /* Release: a reader that sees the name sees an id that is as new, or newer: at worst a wrong label. */
    atomic_store_explicit(&s->name, subject ? subject->name : NULL, memory_order_release);
}

/* --- start and stop --------------------------------------------------------------------------------------------- */

static struct trace_ring *ring_of(struct worker *w)
{
    return atomic_load_explicit(&w->trace.ring, memory_order_acquire);
}

static void read_subject(const struct trace_worker *w, struct pool_subject *ret)
{
    ret->name = atomic_load_explicit(&w->subject.name, memory_order_acquire);
    ret->id[0] = atomic_load_explicit(&w->subject.id[0], memory_order_relaxed);
    ret->id[1] = atomic_load_explicit(&w->subject.id[1], memory_order_relaxed);
}

void pool_worker_subject(const struct pool *pool, uint32_t index, struct pool_subject *ret)
{
    read_subject(&pool->all[index]->trace, ret);
}

bool pool_standing(struct pool_standing *ret)
{
    const struct worker *w = worker_current;

    if (!w)
        return false;
    const struct trace_stolen *s = &w->trace.stolen;
    uint32_t victim = atomic_load_explicit(&s->victim, memory_order_relaxed);
    *ret = (struct pool_standing){
        .origin = atomic_load_explicit(&w->deque.origin, memory_order_relaxed),
        .victim = victim ? victim - 1 : TRACE_NOBODY,
        .victim_origin = atomic_load_explicit(&s->origin, memory_order_relaxed),
        .since = atomic_load_explicit(&s->since, memory_order_relaxed),
    };
    return true;
}

void pool_trace_start(struct pool *pool)
{
    struct trace *t = &pool->trace;
    uint32_t n = pool_workers_seen(pool), events = TRACE_EVENTS_MAX;

    pthread_mutex_lock(&t->lock);
    while (events > TRACE_EVENTS_MIN && events > TRACE_EVENTS_ALL / n)
        events /= 2;
    atomic_store_explicit(&t->events, events, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        struct trace_ring *r = ring_of(pool->all[i]);

        if (r)
            r->begin = atomic_load_explicit(&r->head, memory_order_acquire);
    }
    t->from_nsec = now_nsec();
    t->to_nsec = 0;
    atomic_store_explicit(&t->on, true, memory_order_seq_cst);
    /* after that: events that end from now on are recorded, except for a moment */
    for (uint32_t i = 0; i < n; i++)
        read_subject(&pool->all[i]->trace, &pool->all[i]->trace.at_start);
    pthread_mutex_unlock(&t->lock);
}

/* What goes on at the end. [trace.lock] */
static void look_at_all(struct pool *pool)
{
    uint32_t n = pool_workers_seen(pool);

    for (uint32_t i = 0; i < n; i++)
        read_subject(&pool->all[i]->trace, &pool->all[i]->trace.at_end);
}

void pool_trace_stop(struct pool *pool)
{
    struct trace *t = &pool->trace;

    pthread_mutex_lock(&t->lock);
    if (atomic_exchange_explicit(&t->on, false, memory_order_relaxed)) {
        t->to_nsec = now_nsec();
        look_at_all(pool);
    }
    pthread_mutex_unlock(&t->lock);
}

void pool_trace_forget(struct pool *pool)
{
    struct trace *t = &pool->trace;
    uint32_t n = pool_workers_seen(pool);

    pool_trace_stop(pool);
    pthread_mutex_lock(&t->lock);
    t->from_nsec = t->to_nsec = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct trace_ring *r = ring_of(pool->all[i]);
        size_t page = (size_t)sysconf(_SC_PAGESIZE);

        if (!r || ring_size(r->events) <= page)
            continue;
        r->begin = atomic_load_explicit(&r->head, memory_order_acquire);
        /* all but the first page, which has the head; a late event of the worker's makes a page anew */
        madvise((char *)r + page, ring_size(r->events) - page, MADV_DONTNEED);
    }
    pthread_mutex_unlock(&t->lock);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

/* Something that has begun and not ended. kind 0: what the worker was busy with when the trace began. */
struct open {
    uint64_t nsec;
    uint32_t kind, other;
    struct pool_subject subject;
};

struct writer {
    const struct pool *pool;
    const struct pool_trace_output *out;
    uint64_t from, to;
    uint32_t worker, n_workers;
    uint64_t n_flows;
    struct open *open;
    uint32_t depth, room;
    char *text;
    size_t used;
    int error;
};

static void flush_text(struct writer *w)
{
    if (w->used > 0 && w->error == 0)
        w->error = w->out->put(w->text, w->used, w->out->userdata);
    w->used = 0;
}

/* One line: one object. Texts in it are ours, or went through name_of(). */
__attribute__((format(printf, 2, 3))) static void put_line(struct writer *w, const char *format, ...)
{
    va_list args;

    if (OUT_SIZE - w->used < LINE_MAX_)
        flush_text(w);
    va_start(args, format);
    int n = vsnprintf(w->text + w->used, LINE_MAX_, format, args);
    va_end(args);
    if (n > 0 && n < (int)LINE_MAX_)
        w->used += (size_t)n;
}

#define TIME       "%" PRIu64 ".%03u"
#define USEC(nsec) (nsec) / 1000u, (unsigned)((nsec) % 1000u)

/* The name of what has one, with nothing in it that JSON would have to escape. */
static const char *name_of(const struct writer *w, const struct pool_subject *s, char *buffer, size_t size)
{
    if (!s->name || !w->pool->options.subject_name)
        return NULL;
    buffer[0] = 0;
    w->pool->options.subject_name(s->name, buffer, size, w->pool->options.context);
    for (char *c = buffer; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f || *c == '"' || *c == '\\')
            *c = '?';
    return buffer;
}

static void id_text(const struct pool_subject *s, char text[static 33])
{
    uint8_t bytes[16];

    memcpy(bytes, s->id, sizeof(bytes));
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static void put_span(struct writer *w, const struct open *o, uint64_t end)
{
    static const char *const kinds[] = {"running", "root", "task", "join", "sleep"};
    char buffer[160], victim[48] = "", job[64] = "", id[33];
    uint64_t begin = MAX(o->nsec, w->from);
    bool work = o->kind == 0 || o->kind == TRACE_ROOT || o->kind == TRACE_TASK;
    const char *kind = kinds[o->kind], *name = work ? name_of(w, &o->subject, buffer, sizeof(buffer)) : NULL;

    end = MAX(end, begin);
    if (o->kind == TRACE_TASK && o->other < w->n_workers)
        snprintf(victim, sizeof(victim), "\"victim\":%u%s", o->other, name ? "," : "");
    if (name) {
        id_text(&o->subject, id);
        snprintf(job, sizeof(job), "\"job\":\"%s\"", id);
    }
    put_line(w,
             "{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":" TIME ",\"dur\":" TIME ",\"cat\":\"%s\",\"name\":\"%s\","
             "\"args\":{%s%s}}\n",
             w->out->number, w->worker, USEC(begin), USEC(end - begin), kind, name ? name : kind, victim, job);
}

/* From the victim's lane to the thief's. */
static void put_steal(struct writer *w, const struct event_copy *e)
{
    static const char *const ends[] = {"\"ph\":\"s\"", "\"ph\":\"f\",\"bp\":\"e\""};
    uint32_t lanes[] = {e->other, w->worker};

    if (e->other >= w->n_workers)
        return;
    w->n_flows++;
    for (int i = 0; i < 2; i++)
        put_line(w,
                 "{%s,\"pid\":%u,\"tid\":%u,\"ts\":" TIME
                 ",\"cat\":\"steal\",\"name\":\"steal\",\"id\":\"%u.%u.%" PRIu64 "\"}\n",
                 ends[i], w->out->number, lanes[i], USEC(e->nsec), w->out->number, w->worker, w->n_flows);
}

static void push_open(struct writer *w, uint64_t nsec, uint32_t kind, uint32_t other,
                      const struct pool_subject *subject)
{
    if (w->depth == w->room) {
        uint32_t room = w->room ? 2 * w->room : 64;
        struct open *open = room > DEPTH_MAX ? NULL : realloc(w->open, room * sizeof(*open));

        if (!open)
            return; /* its end will be taken for one that began before the trace */
        w->open = open;
        w->room = room;
    }
    w->open[w->depth++] = (struct open){.nsec = nsec, .kind = kind, .other = other, .subject = *subject};
}

static void pop_open(struct writer *w, uint64_t end)
{
    put_span(w, &w->open[--w->depth], end);
}

static void begin_span(struct writer *w, const struct event_copy *e)
{
    /* Roots do not nest: whatever is open has lost its end. */
    while (e->kind == TRACE_ROOT && w->depth > 0)
        pop_open(w, e->nsec);
    push_open(w, e->nsec, e->kind, e->other, &e->subject);
    if (e->kind == TRACE_TASK)
        put_steal(w, e);
}

static void end_span(struct writer *w, const struct event_copy *e)
{
    uint32_t kind = e->kind & ~(uint32_t)TRACE_END;
    struct open *top = w->depth > 0 ? &w->open[w->depth - 1] : NULL;

    if (top && (top->kind == kind || (top->kind == 0 && (kind == TRACE_ROOT || kind == TRACE_TASK)))) {
        if (top->kind == 0)
            top->kind = kind;
        top->other = e->other;
        if (kind == TRACE_ROOT && e->subject.name)
            top->subject = e->subject; /* at its beginning the host had not told yet */
        pop_open(w, e->nsec);
        return;
    }
    /* It began before the trace, or before what is still in the ring. */
    put_span(w, &(struct open){.nsec = w->from, .kind = kind, .other = e->other, .subject = e->subject}, e->nsec);
}

static void put_event(struct writer *w, const struct event_copy *e)
{
    switch (e->kind) {
    case TRACE_ROOT:
    case TRACE_TASK:
    case TRACE_JOIN:
    case TRACE_SLEEP:
        begin_span(w, e);
        return;
    case TRACE_ROOT | TRACE_END:
    case TRACE_TASK | TRACE_END:
    case TRACE_JOIN | TRACE_END:
    case TRACE_SLEEP | TRACE_END:
        end_span(w, e);
        return;
    case TRACE_REVOKE:
        if (e->other < w->n_workers)
            put_line(w,
                     "{\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%u,\"ts\":" TIME
                     ",\"cat\":\"revoke\",\"name\":\"revoke\",\"args\":{\"victim\":%u}}\n",
                     w->out->number, w->worker, USEC(e->nsec), e->other);
        return;
    default:
        return;
    }
}

static void load_event(struct trace_ring *r, uint64_t at, struct event_copy *ret)
{
    _Atomic uint64_t *words = &r->words[(at & (r->events - 1)) * WORDS];
    uint64_t kind = atomic_load_explicit(&words[1], memory_order_acquire);

    ret->nsec = atomic_load_explicit(&words[0], memory_order_acquire);
    ret->kind = (uint32_t)kind;
    ret->other = (uint32_t)(kind >> 32);
    ret->subject.id[0] = atomic_load_explicit(&words[2], memory_order_acquire);
    ret->subject.id[1] = atomic_load_explicit(&words[3], memory_order_acquire);
    ret->subject.name = (const void *)(uintptr_t)atomic_load_explicit(&words[4], memory_order_acquire);
}

/* Whether event `at` still was what it was when it had been read. */
static bool is_there(struct trace_ring *r, uint64_t at)
{
    return atomic_load_explicit(&r->head, memory_order_acquire) < at + r->events;
}

static uint64_t put_ring(struct writer *w, struct trace_ring *r)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire), at = r->begin, lost = 0;
    uint64_t from = w->from;
    struct event_copy e;

    if (head - at >= r->events) {
        lost = head - at - r->events + 1;
        at += lost;
    }
    for (bool first = lost > 0; at < head; at++) {
        load_event(r, at, &e);
        if (!is_there(r, at)) {
            lost++;
            continue;
        }
        if (e.nsec < w->from || e.nsec > w->to)
            continue;
        if (first)
            w->from = e.nsec; /* what was before is not known */
        first = false;
        put_event(w, &e);
    }
    w->from = from;
    return lost;
}

static uint64_t put_worker(struct writer *w, struct worker *worker)
{
    struct trace_ring *r = ring_of(worker);
    bool guest = pool_worker_kind(w->pool, w->worker) == POOL_GUEST;
    uint64_t lost = 0;

    put_line(w, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"%s %u\"}}\n",
             w->out->number, w->worker, guest ? "guest" : "worker", w->worker);
    w->depth = 0;
    if (worker->trace.at_start.name)
        push_open(w, w->from, 0, TRACE_NOBODY, &worker->trace.at_start);
    if (r)
        lost = put_ring(w, r);
    if (w->depth > 0 && w->open[0].kind == TRACE_ROOT && !w->open[0].subject.name)
        w->open[0].subject = worker->trace.at_end;
    while (w->depth > 0)
        pop_open(w, w->to);
    if (lost)
        put_line(w,
                 "{\"ph\":\"i\",\"s\":\"t\",\"pid\":%u,\"tid\":%u,\"ts\":" TIME
                 ",\"cat\":\"lost\",\"name\":\"older events were overwritten\",\"args\":{\"events\":%" PRIu64 "}}\n",
                 w->out->number, w->worker, USEC(w->from), lost);
    return lost;
}

int pool_trace_write(struct pool *pool, const struct pool_trace_output *out, uint64_t *ret_lost)
{
    struct trace *t = &pool->trace;
    struct writer w = {.pool = pool, .out = out, .text = malloc(OUT_SIZE)};
    uint64_t lost = 0;

    if (!w.text)
        return -ENOMEM;
    pthread_mutex_lock(&t->lock);
    w.from = t->from_nsec;
    w.to = t->to_nsec;
    if (!w.to) {
        w.to = now_nsec();
        look_at_all(pool);
    }
    w.n_workers = pool_workers_seen(pool);
    if (w.from) {
        put_line(&w, "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"executor %u\"}}\n",
                 out->number, out->number);
        for (w.worker = 0; w.worker < w.n_workers && w.error == 0; w.worker++)
            lost += put_worker(&w, pool->all[w.worker]);
        flush_text(&w);
    }
    pthread_mutex_unlock(&t->lock);
    free(w.open);
    free(w.text);
    if (w.error == 0)
        *ret_lost = lost;
    return w.error;
}
