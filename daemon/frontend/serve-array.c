/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-array.c: many jobs in one frame (ARRAY), and their ends gathered into few (ENDS).
 * Owns the items of an ARRAY. Each has the watch of its job, and how much output it may still send. [loop]
 * Keeps: each item has one last record, in the order of the ends. What was gathered leaves with the connection's next
 * write, and before the end of a batch is told.
 * Does not know how many jobs a user may have: one record refuses all items that wsd does not take for the same
 * reason. */
#include "frontend/serve-array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "frontend/access.h"
#include "frontend/job-watch.h"
#include "frontend/quota.h"
#include "frontend/serve-batch.h"
#include "frontend/serve-submit.h"
#include "proto/records.h"

#define ENDS_BODY_MAX (56u * 1024u) /* of one frame: beside the longest header */
#define COST_ITEM     100u          /* units of share.h, */
#define COST_ALONE    500u          /* and so many more where it is a job of its own */
#define REST_MAX      (32u * 1024u) /* output in one record */

struct array_item {
    struct watch watch;
    struct call_array *array;
    uint64_t sent, allowed; /* output */
    bool sure;              /* accepted, or refused */
};

struct call_array {
    struct call *call;
    struct array_watch watch;
    struct list gathered; /* peer->gathered, while there are records */
    struct buffer ends;
    struct buffer early; /* frames that came before it is known how many items are accepted */
    uint32_t n_records;
    uint32_t n_open;   /* items without their end; one more while they are submitted, or have their turn to write */
    uint32_t n_unsure; /* neither accepted nor refused yet */
    uint32_t n_accepted;
    uint32_t n_shed;    /* the first so many are followed by no client now */
    uint32_t item_cost; /* units of share.h */
    uint32_t uid;
    uint64_t submitted_usec;
    char *plugin, *function; /* as the first end has them */
    struct span body;        /* while they are submitted: what is left, */
    size_t ahead;            /* and how much of it there was before the last item */
    struct msg_end refusal;  /* the last one, which may be that of all behind it: */
    char refusal_text[CODEC_TEXT_MAX];
    bool quiet;               /* the client wants no ACCEPTED */
    bool forgotten;           /* no frame tells of it from now on, and it does not end by itself */
    bool stalled;             /* output waits until it is known how many are accepted */
    struct array_item *items; /* watch.n of them; NULL as long as no job has a watch of its own */
};

static struct array_item *item_of(struct watch *w)
{
    return container_of(w, struct array_item, watch);
}

/* The words of a record; most have none. */
static struct span text(const char *s, size_t max)
{
    return *s ? span_within(s, max) : (struct span){s, 0};
}

/* --- what is told of items ---------------------------------------------------------------------------------------- */

/* Sends the gathered records; without any, only the last frame. */
static void array_send(struct call_array *a)
{
    struct peer *p = a->call->peer;
    struct msg m = {.type = FRAME_ENDS,
                    .ends = {.plugin = text(a->plugin ? a->plugin : "", CODEC_PATH_MAX),
                             .function = text(a->function ? a->function : "", CODEC_NAME_MAX),
                             .uid = a->uid,
                             .records = a->n_records,
                             .submitted_usec = a->submitted_usec,
                             .last = !a->n_open}};

    list_remove(&a->gathered);
    memcpy(m.ends.id, a->watch.id, sizeof(m.ends.id));
    if (a->n_records || m.ends.last)
        peer_send(p, &m, a->call->tag, buffer_data(&a->ends), buffer_size(&a->ends));
    a->ends.start = a->ends.end = 0;
    a->n_records = 0;
}

void arrays_flush(struct peer *p)
{
    while (!list_empty(&p->gathered))
        array_send(container_of(p->gathered.next, struct call_array, gathered));
}

/* Nothing is told of the items before it is known how many of them are accepted. */
static bool holds(const struct call_array *a)
{
    return a->n_unsure;
}

static size_t n_held(const struct call_array *a)
{
    return holds(a) ? buffer_size(&a->ends) + buffer_size(&a->early) : 0;
}

/* What is held is bounded as the output of a connection is, and counts for the user. */
static bool is_full(const struct call_array *a)
{
    size_t held = n_held(a);

    return peer_full(a->call->peer) || held >= FRONTEND_OUT_HIGH || (held && quota_unread(a->call->peer));
}

static void count_held(struct call_array *a, size_t was)
{
    struct peer *p = a->call->peer;

    p->n_held += n_held(a) - was;
    quota_output(p);
}

/* Sends a frame that tells of an item. */
static void tell(struct call_array *a, const struct msg *m)
{
    struct peer *p = a->call->peer;
    size_t was = n_held(a);

    if (a->forgotten)
        return;
    if (!holds(a)) {
        peer_send(p, m, a->call->tag, NULL, 0);
        return;
    }
    uint8_t *at = buffer_reserve(&a->early, codec_room(m));
    if (at)
        buffer_commit(&a->early, codec_encode(m, a->call->tag, 0, at, codec_room(m)));
    else /* its client must not wait for what will not come */
        peer_fail(p, "out of memory");
    count_held(a, was);
}

static void stall(struct call_array *a)
{
    if (holds(a))
        a->stalled = true;
    else
        call_stall(a->call);
}

static void array_due(struct call_array *a)
{
    if (!list_empty(&a->gathered))
        return;
    list_push_back(&a->call->peer->gathered, &a->gathered);
    share_mark(a->call->peer);
}

/* Returns where the record goes, without output that `end` does not have. NULL: the array is forgotten; or there is no memory, and the
 * connection is lost. */
static uint8_t *gather(struct call_array *a, const struct msg_end *end)
{
    size_t size = codec_end_size(end), was = n_held(a);

    if (a->forgotten)
        return NULL;
    if (!holds(a) && buffer_size(&a->ends) + size > ENDS_BODY_MAX)
        array_send(a);
    uint8_t *at = buffer_reserve(&a->ends, size);
    if (!at) { /* its client must not wait for what will not come */
        peer_fail(a->call->peer, "out of memory");
        return NULL;
    }
    buffer_commit(&a->ends, size);
    a->n_records++;
    if (!holds(a))
        array_due(a);
    else
        count_held(a, was);
    return codec_put_end(end, at);
}

/* So many items have had their last record. If all have, the call is over and freed. */
static void array_ended(struct call_array *a, uint32_t n)
{
    a->n_open -= n;
    if (a->n_open || a->forgotten)
        return;
    array_send(a);
    call_free(a->call);
}

/* The record of the last refusal; others that follow it for the same reason are in it. */
static void refusal_send(struct call_array *a)
{
    uint32_t n = a->refusal.n;

    if (!n)
        return;
    a->refusal.n = 0;
    struct msg_end end = a->refusal;
    end.n = n;
    gather(a, &end);
}

static void accepted_send(struct call_array *a)
{
    struct msg m = {.type = FRAME_ACCEPTED, .id = {.has_id = true, .items = a->n_accepted}};

    memcpy(m.id.id, a->watch.id, sizeof(m.id.id));
    peer_send(a->call->peer, &m, a->call->tag, NULL, 0);
}

/* Sends what was held, in as many frames as needed: refusals, the other records, or both. */
static void held_send(struct call_array *a, const struct buffer *held, bool refusals, bool others)
{
    struct span left = {(const char *)buffer_data(held), buffer_size(held)};
    const char *from = left.data;
    struct msg_end end;

    for (; codec_next_end(&left, &end); from = left.data) {
        size_t size = (size_t)(left.data - from);

        if (end.state ? !others : !refusals)
            continue;
        if (buffer_size(&a->ends) + size > ENDS_BODY_MAX)
            array_send(a);
        if (buffer_put(&a->ends, from, size) < 0) { /* its client must not wait for what will not come */
            peer_fail(a->call->peer, "out of memory");
            break;
        }
        a->n_records++;
        array_due(a);
    }
}

/* It is known how many are accepted. */
static void array_release(struct call_array *a)
{
    bool tells = a->n_accepted && !a->quiet, refusals_first = tells && !(a->call->peer->features & FEATURE_ENDS);
    struct buffer held = a->ends;

    a->ends = (struct buffer){0};
    a->n_records = 0;
    if (refusals_first) {
        held_send(a, &held, true, false);
        array_send(a);
    }
    if (tells)
        accepted_send(a);
    peer_send_frames(a->call->peer, buffer_data(&a->early), buffer_size(&a->early));
    buffer_deinit(&a->early);
    held_send(a, &held, !refusals_first, true);
    buffer_deinit(&held);
    if (a->stalled) {
        call_stall(a->call);
        share_mark(a->call->peer);
    }
}

/* They are accepted, or will not be. */
static void array_sure(struct call_array *a, uint32_t n)
{
    if (n && a->n_unsure == n)
        refusal_send(a);
    size_t was = n_held(a);
    a->n_unsure -= n;
    count_held(a, was);
    if (!a->n_unsure && n && !a->forgotten)
        array_release(a);
}

static void on_accepted(struct watch *w, const uint8_t id[16])
{
    struct array_item *item = item_of(w);

    item->sure = true;
    item->array->n_accepted++;
    array_sure(item->array, 1);
}

static uint32_t index_of(const struct array_item *item)
{
    return (uint32_t)(item - item->array->items);
}

static void on_refused(struct watch *w, int code, const char *words, uint64_t retry_usec)
{
    struct array_item *item = item_of(w);
    struct call_array *a = item->array;
    struct msg_end *last = &a->refusal;

    a->call->peer->n_refused++;
    bool same = last->n && last->index + last->n == index_of(item) && last->exit == (uint32_t)code &&
                last->queued_usec == retry_usec && strcmp(words, a->refusal_text) == 0;
    if (same) {
        last->n++;
    } else {
        refusal_send(a);
        snprintf(a->refusal_text, sizeof(a->refusal_text), "%s", words);
        *last = (struct msg_end){.index = index_of(item),
                                 .n = 1,
                                 .exit = (uint32_t)code & UINT8_MAX,
                                 .queued_usec = retry_usec,
                                 .error = text(a->refusal_text, CODEC_TEXT_MAX)};
    }
    if (!holds(a))
        refusal_send(a);
    if (!item->sure)
        array_sure(a, 1);
    item->sure = true;
    array_ended(a, 1);
}

static size_t on_output(struct watch *w, const void *data, size_t size)
{
    struct array_item *item = item_of(w);
    struct call_array *a = item->array;
    size_t done = 0;

    while (done < size && item->sent < item->allowed) {
        size_t n = MIN(MIN(size - done, item->allowed - item->sent), (size_t)REST_MAX);
        struct msg_end end = {
            .index = index_of(item), .n = 1, .state = JOB_RUNNING, .output = {(const char *)data + done, n}};

        if (is_full(a)) {
            stall(a);
            break;
        }
        gather(a, &end);
        item->sent += n;
        done += n;
    }
    return done;
}

static bool on_takes_rest(struct watch *w, size_t size)
{
    const struct array_item *item = item_of(w);

    return size <= REST_MAX && size <= item->allowed - item->sent && !is_full(item->array);
}

static void on_message(struct watch *w, int level, const char *words)
{
    const struct array_item *item = item_of(w);
    struct msg m = {.type = FRAME_MESSAGE,
                    .message = {.level = (uint32_t)level, .text = text(words, CODEC_TEXT_MAX), .item = index_of(item)}};

    if (!is_full(item->array))
        tell(item->array, &m);
}

static int on_open(struct watch *w, uint32_t serial, const char *path)
{
    const struct array_item *item = item_of(w);
    struct msg m;
    int r = item->array->forgotten ? -ECANCELED : open_prepare(item->array->call, serial, path, index_of(item), &m);

    if (r == 0)
        tell(item->array, &m);
    return r;
}

/* An end without the item's number, its times and its output. */
static struct msg_end end_of(struct call_array *a, const struct job_info *info)
{
    if (!a->plugin) {
        a->plugin = strdup(info->plugin);
        a->function = strdup(info->function);
        a->submitted_usec = info->submitted_usec;
    }
    return (struct msg_end){.n = 1,
                            .state = (uint32_t)info->state,
                            .exit = (uint32_t)info->exit,
                            .attempts = MIN(info->attempts, (uint32_t)UINT16_MAX),
                            .worker = text(info->worker, CODEC_NAME_MAX),
                            .error = text(info->error, CODEC_TEXT_MAX),
                            .status = text(info->status, CODEC_TEXT_MAX),
                            .backtrace = text(info->backtrace, CODEC_TRACE_MAX)};
}

static void on_done(struct watch *w, const struct job_info *info)
{
    const struct array_item *item = item_of(w);
    struct call_array *a = item->array;
    struct msg_end end = end_of(a, info);

    if ((info->done || info->total) && a->call->peer->features & FEATURE_ENDS)
        tell(a, &(struct msg){.type = FRAME_PROGRESS,
                              .progress = {.done = info->done, .total = info->total, .item = index_of(item)}});
    end.index = index_of(item);
    end.queued_usec = info->queued_usec;
    end.run_usec = info->run_usec;
    end.cpu_usec = info->cpu_usec;
    end.output = (struct span){w->rest, w->rest_size};
    gather(a, &end);
    array_ended(a, 1);
}

static bool on_may_use(struct watch *w, const char *plugin)
{
    return access_plugin(item_of(w)->array->call->peer, plugin);
}

static const struct watch_ops item_ops = {
    .may_use = on_may_use,
    .accepted = on_accepted,
    .refused = on_refused,
    .output = on_output,
    .takes_rest = on_takes_rest,
    .message = on_message,
    .open = on_open,
    .done = on_done,
};

/* --- ARRAY -------------------------------------------------------------------------------------------------------- */

static struct call_array *from_watch(struct array_watch *w)
{
    return container_of(w, struct call_array, watch);
}

static void on_next(struct array_watch *w, struct job_request *r, uint32_t i)
{
    struct call_array *a = from_watch(w);
    struct msg_item item = {.args = {.data = ""}};

    a->ahead = a->body.size;
    codec_next_item(&a->body, &item); /* the codec has looked through them */
    r->args = item.args.data;
    r->args_size = item.args.size;
    r->argc = item.argc;
    r->input = item.input.data;
    r->input_size = item.input.size;
}

static void grant(struct array_item *item, uint64_t bytes)
{
    item->allowed = bytes > UINT64_MAX - item->allowed ? UINT64_MAX : item->allowed + bytes;
}

static struct watch *on_item(struct array_watch *w, uint32_t i, bool accepted)
{
    struct call_array *a = from_watch(w);

    if (!a->items)
        a->items = calloc(w->n, sizeof(*a->items));
    if (!a->items) { /* its client must not wait for what will not come */
        peer_fail(a->call->peer, "out of memory");
        return NULL;
    }
    struct array_item *item = &a->items[i];
    if (!item->array)
        grant(item, a->call->peer->window);
    item->watch.ops = &item_ops;
    list_init(&item->watch.progress);
    item->array = a;
    item->sure = accepted;
    if (!accepted)
        share_charge(a->call->peer, COST_ALONE);
    return &item->watch;
}

static void on_all_accepted(struct array_watch *w, uint32_t first, uint32_t n)
{
    from_watch(w)->n_accepted += n;
    array_sure(from_watch(w), n);
}

static bool on_goes_on(struct array_watch *w, uint32_t n)
{
    struct call_array *a = from_watch(w);

    share_charge(a->call->peer, n * a->item_cost);
    return !share_spent(a->call->peer);
}

static bool on_takes(struct array_watch *w, uint64_t size)
{
    const struct call_array *a = from_watch(w);

    return size <= MIN(a->call->peer->window, (uint64_t)REST_MAX) && !is_full(a);
}

/* Gathers several ends in one record, with their common part once. */
static void gather_several(struct call_array *a, struct msg_end *end, uint32_t n, const struct array_end ends[])
{
    end->n = n;
    end->queued_usec = ends[0].queued_usec;
    end->output = (struct span){.size = n * (size_t)CODEC_ONE_SIZE};
    for (uint32_t i = 0; i < n; i++)
        end->output.size += ends[i].size;
    uint8_t *at = gather(a, end);
    if (!at)
        return;
    at -= end->output.size;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t later = ends[i].queued_usec > end->queued_usec ? ends[i].queued_usec - end->queued_usec : 0;

        at = codec_put_one(&(struct msg_one){.later_usec = (uint32_t)MIN(later, (uint64_t)UINT32_MAX),
                                             .run_usec = (uint32_t)MIN(ends[i].run_usec, (uint64_t)UINT32_MAX),
                                             .cpu_usec = (uint32_t)MIN(ends[i].cpu_usec, (uint64_t)UINT32_MAX),
                                             .output = {ends[i].output, ends[i].size}},
                           at);
    }
}

static void on_ended(struct array_watch *w, uint32_t first, uint32_t n, const struct job_info *info,
                     const struct array_end ends[])
{
    struct call_array *a = from_watch(w);
    struct msg_end end = end_of(a, info);
    bool several = n > 1 && end.state == CODEC_STATE_FINAL && a->call->peer->features & FEATURE_ALIKE;

    end.index = first;
    if (several)
        gather_several(a, &end, n, ends);
    for (uint32_t i = 0; !several && i < n; i++) {
        end.index = first + i;
        end.queued_usec = ends[i].queued_usec;
        end.run_usec = ends[i].run_usec;
        end.cpu_usec = ends[i].cpu_usec;
        end.output = (struct span){ends[i].output, ends[i].size};
        gather(a, &end);
    }
    array_ended(a, n);
}

static const struct array_watch_ops array_ops = {.next = on_next,
                                                 .item = on_item,
                                                 .accepted = on_all_accepted,
                                                 .goes_on = on_goes_on,
                                                 .takes = on_takes,
                                                 .ended = on_ended};

#define ARRAY_PROBLEM 128u /* bytes of the words why an ARRAY is refused */

/* NULL, or why not; text: room for the words. */
static const char *array_problem(const struct msg_submit *m, char text[static ARRAY_PROBLEM])
{
    const char *problem = submit_problem(m);
    if (problem)
        return problem;
    if (m->flags & SUBMIT_DURABLE || m->key.size)
        return "a durable job, or one with a key, is submitted by itself";
    if (m->items * (m->after.size + m->after_any.size) / 16 > ARRAY_AFTER_MAX) {
        snprintf(text, ARRAY_PROBLEM, "items times what each is to run after: above %u; make several ARRAYs of it",
                 ARRAY_AFTER_MAX);
        return text;
    }
    return m->flags & ~(uint32_t)(SUBMIT_DETACH | SUBMIT_QUIET | SUBMIT_WAIT_RUNNER)
               ? "jobs of an ARRAY have flags 1, 16 and 64 only"
               : NULL;
}

static struct call_array *array_new(struct call *c, uint32_t n)
{
    struct call_array *a = malloc(sizeof(*a));

    if (!a)
        return NULL;
    *a = (struct call_array){
        .call = c, .watch = {.ops = &array_ops, .n = n}, .uid = c->peer->uid, .n_unsure = n, .n_open = n + 1};
    list_init(&a->gathered);
    list_init(&a->watch.bundles);
    return a;
}

static struct watch *array_watch(struct call *c, uint32_t item)
{
    struct call_array *a = c->array;

    if (item >= a->watch.n)
        return NULL;
    a->n_open++; /* where there is no memory, they may all end by it */
    jobs_array_split(&a->watch, item);
    struct watch *w = a->n_open > 1 && a->items ? &a->items[item].watch : NULL;
    array_ended(a, 1);
    return w;
}

static void array_cancel(struct call *c, uint32_t item)
{
    struct peer *p = c->peer;
    struct watch *w = array_watch(c, item);

    if (w)
        jobs_cancel_watched(w, access_cancels(p), p->uid);
}

static void array_credit(struct call *c, const struct msg_credit *m)
{
    struct call_array *a = c->array;

    if (m->item >= a->watch.n || (!a->items && !on_item(&a->watch, m->item, true)))
        return;
    grant(&a->items[m->item], m->bytes);
    jobs_output_ready(&a->items[m->item].watch); /* the last item may end by it, and the call with it */
}

static void array_room(struct call *c)
{
    struct call_array *a = c->array;

    a->n_open++; /* its end waits until all have had their turn */
    for (uint32_t i = 0; a->items && i < a->watch.n && !peer_full(c->peer); i++)
        if (a->items[i].watch.job)
            jobs_output_ready(&a->items[i].watch);
    if (peer_full(c->peer) && a->n_open > 1)
        call_stall(c);
    array_ended(a, 1);
}

/* No frame tells of it from now on; what was gathered is dropped. */
static void array_silence(struct call_array *a)
{
    size_t was = n_held(a);

    a->forgotten = true;
    list_remove(&a->gathered);
    a->ends.start = a->ends.end = 0;
    a->early.start = a->early.end = 0;
    a->n_records = 0;
    count_held(a, was);
    jobs_array_gone(&a->watch);
}

static bool array_shed(struct call *c, uint32_t *budget)
{
    struct call_array *a = c->array;

    if (!a)
        return true;
    if (!a->forgotten)
        array_silence(a);
    for (; a->n_shed < a->watch.taken && *budget; a->n_shed++, --*budget) {
        jobs_array_split(&a->watch, a->n_shed);
        if (a->items)
            jobs_unwatch(&a->items[a->n_shed].watch);
    }
    return a->n_shed == a->watch.taken;
}

static void array_forget(struct call *c)
{
    struct call_array *a = c->array;

    if (!a)
        return;
    free(a->items);
    list_remove(&a->gathered);
    buffer_deinit(&a->ends);
    buffer_deinit(&a->early);
    free(a->plugin);
    free(a->function);
    free(a);
}

static const struct call_ops ops = {.forget = array_forget,
                                    .room = array_room,
                                    .shed = array_shed,
                                    .cancel = array_cancel,
                                    .credit = array_credit,
                                    .opener = array_watch,
                                    .leaves = true};

/* --- submitting, in as many shares as it takes -------------------------------------------------------------------- */

/* Opens the call. NULL: the request was answered. */
static struct call_array *array_begin(const struct request *r, const struct job_request *job, const char *problem,
                                      uint32_t code)
{
    const struct msg_submit *m = &r->msg->submit;
    struct call *c = call_new(r, &ops);

    if (!c)
        return NULL;
    if (!problem)
        c->array = array_new(c, m->items);
    if (!c->array) {
        call_refuse(c, problem ? code : CODE_BUSY, problem ? problem : "out of memory");
        return NULL;
    }
    c->detached = m->flags & SUBMIT_DETACH;
    c->array->quiet = m->flags & SUBMIT_QUIET;
    c->array->item_cost = COST_ITEM + submit_cost(job);
    c->array->body = r->body;
    return c->array;
}

/* All are accepted or refused: those that were not taken for the same reason as the last one that was. */
static void array_submitted(struct call_array *a)
{
    uint32_t rest = a->watch.n - a->watch.taken;

    a->refusal.n += rest;
    refusal_send(a);
    array_sure(a, rest);
    array_ended(a, rest + 1);
}

void serve_array(struct request *r)
{
    const struct msg_submit *m = &r->msg->submit;
    struct peer *p = r->peer;
    struct job_request job = submit_job(&r->msg->submit, r->peer);
    struct call *c = r->begun ? call_find(p, r->tag) : NULL;
    char text[ARRAY_PROBLEM];
    uint32_t code = CODE_USAGE;
    const char *problem = c ? NULL : array_problem(m, text);

    r->begun = false;
    if (!problem && m->batch)
        problem = batch_join(p, m->batch, &job, &code);
    if (c && problem) { /* the batch was held open for it */
        peer_fail(p, "%s", problem);
        return;
    }
    struct call_array *a = c ? c->array : array_begin(r, &job, problem, code);
    if (!a)
        return;
    if (c)
        a->body = (struct span){r->body.data + (r->body.size - a->ahead), a->ahead};
    r->begun = !jobs_submit_array(p->frontend->options.jobs, &job, &a->watch);
    if (!r->begun)
        array_submitted(a);
}
