/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.c: requests of clients become calls of the job table, and its answers become frames.
 * Owns the calls: one for each request that is open. A call belongs to its connection and goes with it, so an answer
 * never finds a connection that is gone. [loop]
 * Keeps: one last frame a request; windows and credits in both directions.
 * Holds no policy: the job table decides what is allowed, and when. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/async-close.h"
#include "base/log.h"
#include "config.h"
#include "frontend/call.h"
#include "frontend/peer.h"

/* Units of share.h. What is kept among a million others is in no cache. */
#define COST_AFTER   100u  /* a job that another one is to run after */
#define COST_LATER   3000u /* a job that is not due yet */
#define COST_KEY     2000u
#define AFTER_A_CALL 8u /* so many of them cost as much to forget as one call */

static struct span span(const char *text)
{
    return (struct span){text, strlen(text)};
}

/* One line for people: what is longer than a message holds is cut off. */
static struct span line(const char *text)
{
    return (struct span){text, strnlen(text, CODEC_TEXT_MAX - 1)};
}

static uint64_t tag_key(const struct peer *p, uint32_t tag)
{
    return hash_number(p->number << 32 ^ tag);
}

struct call *call_find(const struct peer *p, uint32_t tag)
{
    for (struct hash_link *l = hash_first(&p->frontend->calls, tag_key(p, tag)); l; l = hash_next(l)) {
        struct call *c = container_of(l, struct call, by_tag);

        if (c->peer == p && c->tag == tag)
            return c;
    }
    return NULL;
}

void calls_deinit(struct frontend *f)
{
    freelist_deinit(&f->free_calls);
    hash_deinit(&f->calls);
}

/* It has had its last frame; its job goes on. */
static void call_leave(struct call *c)
{
    jobs_unwatch(&c->watch);
    call_free(c);
}

struct call *call_new(struct peer *p, uint32_t tag, enum call_kind kind)
{
    struct call *c = call_find(p, tag);
    const char *refusal;

    if (c && c->over) {
        call_leave(c);
        c = NULL;
    }
    if (tag == 0 || c) {
        peer_fail(p, tag == 0 ? "a request with tag 0" : "a request with the tag of an open one");
        return NULL;
    }
    refusal = quota_request(p);
    if (refusal) {
        peer_error(p, tag, CODE_BUSY, refusal);
        return NULL;
    }
    c = freelist_take(&p->frontend->free_calls, sizeof(*c));
    if (c)
        memset(c, 0, sizeof(*c));
    if (!c || hash_insert(&p->frontend->calls, &c->by_tag, tag_key(p, tag)) < 0) {
        freelist_give(&p->frontend->free_calls, c);
        quota_request_ended(p);
        peer_error(p, tag, CODE_BUSY, "out of memory");
        return NULL;
    }
    c->peer = p;
    c->tag = tag;
    c->kind = kind;
    c->out_allowed = p->window;
    c->in_allowed = JOBS_INPUT_WINDOW;
    list_init(&c->stalled);
    list_init(&c->query.link);
    list_init(&c->answers);
    list_init(&c->watch.progress);
    list_push_back(&p->calls, &c->link);
    return c;
}

void call_free(struct call *c)
{
    hash_remove(&c->peer->frontend->calls, &c->by_tag);
    list_remove(&c->link);
    list_remove(&c->stalled);
    jobs_plugin_forget(&c->query);
    jobs_dead_forget(&c->dead);
    jobs_schedule_forget(&c->schedule);
    ask_forget(c);
    quota_request_ended(c->peer);
    lane_forget(c);
    arena_forget(c);
    array_forget(c);
    call_batch_forget(c);
    if (c->selection)
        c->peer->listing = false;
    jobs_select_free(c->selection);
    free(c->names);
    free(c->owners);
    freelist_give(&c->peer->frontend->free_calls, c);
}

void call_stall(struct call *c)
{
    if (list_empty(&c->stalled))
        list_push_back(&c->peer->stalled, &c->stalled);
}

void call_later(struct call *c)
{
    if (list_empty(&c->stalled))
        list_push_back(&c->peer->later, &c->stalled);
    share_want(c->peer);
}

void call_end(struct call *c)
{
    peer_send(c->peer, &(struct msg){.type = FRAME_END}, c->tag, NULL, 0);
    call_free(c);
}

/* --- answers of the job table ------------------------------------------------------------------------------------ */

static struct call *call_of(struct watch *w)
{
    return container_of(w, struct call, watch);
}

static void on_accepted(struct watch *w, const uint8_t id[16])
{
    struct call *c = call_of(w);

    c->accepted = true;
    if (c->quiet)
        return;
    struct msg m = {.type = FRAME_ACCEPTED, .id = {.has_id = true}};
    memcpy(m.id.id, id, sizeof(m.id.id));
    peer_send(c->peer, &m, c->tag, NULL, 0);
    if (c->left) {
        c->over = true;
        call_stall(c); /* its watch cannot go in here */
    }
}

static void on_refused(struct watch *w, int code, const char *text, uint64_t retry_usec)
{
    struct call *c = call_of(w);
    bool says = c->peer->features & FEATURE_ENDS;
    /* an accepted job must not be submitted again, whatever has become of this call; to ask for it again does no
     * harm */
    bool taken = says && c->accepted && c->kind == CALL_SUBMIT && code == CODE_BUSY;
    const struct msg m = {.type = FRAME_ERROR,
                          .error = {.code = taken ? CODE_INTERRUPTED : (uint32_t)code,
                                    .text = line(text),
                                    .retry_usec = taken ? 0 : retry_usec,
                                    .accepted = says && c->accepted}};

    c->peer->n_refused++;
    if (!c->over)
        peer_send(c->peer, &m, c->tag, NULL, 0);
    call_free(c);
}

/* Its connection will be the next wsd's, which has the job. */
static bool on_deferred(struct watch *w, const uint8_t id[16])
{
    struct call *c = call_of(w);

    if (c->over || c->peer->remote || !c->peer->frontend->options.keeps)
        return false;
    memcpy(c->id, id, sizeof(c->id));
    c->deferred = true;
    return true;
}

static size_t on_output(struct watch *w, const void *data, size_t size)
{
    struct call *c = call_of(w);
    size_t done = 0;

    if (c->over)
        return 0;
    while (done < size && c->out_sent < c->out_allowed) {
        size_t n = MIN(MIN(size - done, c->out_allowed - c->out_sent), (size_t)FRAME_BODY_CHUNK);
        struct msg m = {.type = FRAME_OUTPUT, .chunk = {.offset = c->out_sent}};

        if (peer_full(c->peer)) {
            call_stall(c);
            break;
        }
        peer_send(c->peer, &m, c->tag, (const uint8_t *)data + done, n);
        c->out_sent += n;
        done += n;
    }
    return done;
}

static bool on_takes_rest(struct watch *w, size_t size)
{
    struct call *c = call_of(w);

    return size <= FRAME_BODY_CHUNK && size <= c->out_allowed - c->out_sent && !peer_full(c->peer);
}

static void on_input_taken(struct watch *w, size_t size)
{
    struct call *c = call_of(w);
    struct msg m = {.type = FRAME_CREDIT, .credit = {.bytes = size}};

    c->in_allowed += size;
    peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void on_message(struct watch *w, int level, const char *text)
{
    struct call *c = call_of(w);
    struct msg m = {.type = FRAME_MESSAGE, .message = {.level = (uint32_t)level, .text = line(text)}};

    if (!c->over && !peer_full(c->peer)) /* messages of a job to a client that does not read are dropped */
        peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void on_progress(struct watch *w, uint64_t done, uint64_t total)
{
    struct call *c = call_of(w);
    struct msg m = {.type = FRAME_PROGRESS, .progress = {.done = done, .total = total}};

    if (!c->over && !peer_full(c->peer))
        peer_send(c->peer, &m, c->tag, NULL, 0);
}

int call_send_open(struct call *c, uint32_t serial, const char *path, uint32_t item)
{
    struct msg m = {.type = FRAME_OPEN, .open = {.serial = serial, .path = span(path), .item = item}};

    if (c->peer->failed)
        return -ENOTCONN;
    if (c->peer->remote)
        return -EREMOTE; /* no descriptor comes from there */
    if (peer_full(c->peer) || c->peer->n_opens >= PEER_OPENS)
        return -EMFILE; /* a job must not pile up requests that the client has to answer */
    c->peer->n_opens++;
    peer_send(c->peer, &m, c->tag, NULL, 0);
    return 0;
}

static int on_open(struct watch *w, uint32_t serial, const char *path)
{
    return call_send_open(call_of(w), serial, path, 0);
}

static void job_msg(struct msg *m, uint16_t type, const struct job_info *info)
{
    *m = (struct msg){.type = type,
                      .job = {.plugin = span(info->plugin),
                              .function = span(info->function),
                              .error = line(info->error),
                              .status = line(info->status),
                              .worker = span(info->worker),
                              .backtrace = span(info->backtrace),
                              .state = (uint32_t)info->state,
                              .exit = (uint32_t)info->exit,
                              .attempts = info->attempts,
                              .uid = info->uid,
                              .queued_usec = info->queued_usec,
                              .run_usec = info->run_usec,
                              .cpu_usec = info->cpu_usec,
                              .submitted_usec = info->submitted_usec,
                              .done = info->done,
                              .total = info->total,
                              .key = span(info->key),
                              .durable = info->durable,
                              .dead = info->dead,
                              .retries = info->retries,
                              .due_usec = info->due_usec,
                              .waits_for = info->waits_for,
                              .placed = info->placed,
                              .tags = span(info->tags),
                              .batch = {(const char *)info->batch, info->batch ? sizeof(info->id) : 0}}};
    memcpy(m->job.id, info->id, sizeof(m->job.id));
}

/* Whether FINISHED says all of it. */
static bool is_plain(const struct job_info *info)
{
    return info->state == JOB_SUCCEEDED && !info->exit && !*info->error && !*info->status && !*info->backtrace &&
           !*info->key && !*info->tags && !info->batch && !info->durable && !info->retries && !info->done &&
           !info->total;
}

static void finished_msg(struct msg *m, const struct job_info *info)
{
    *m = (struct msg){.type = FRAME_FINISHED,
                      .finished = {.plugin = span(info->plugin),
                                   .function = span(info->function),
                                   .worker = span(info->worker),
                                   .attempts = info->attempts,
                                   .uid = info->uid,
                                   .queued_usec = info->queued_usec,
                                   .run_usec = info->run_usec,
                                   .cpu_usec = info->cpu_usec,
                                   .placed = info->placed,
                                   .submitted_usec = info->submitted_usec}};
    memcpy(m->finished.id, info->id, sizeof(m->finished.id));
}

static void on_done(struct watch *w, const struct job_info *info)
{
    struct call *c = call_of(w);
    struct peer *p = c->peer;
    struct msg m;

    if (c->over) {
        call_free(c);
        return;
    }
    if (p->features & FEATURE_BRIEF && is_plain(info)) {
        finished_msg(&m, info);
        peer_send(p, &m, c->tag, w->rest, w->rest_size);
    } else {
        if (w->rest_size)
            on_output(w, w->rest, w->rest_size);
        job_msg(&m, FRAME_DONE, info);
        peer_send(p, &m, c->tag, NULL, 0);
    }
    call_free(c);
}

static bool on_may_use(struct watch *w, const char *plugin)
{
    return access_plugin(call_of(w)->peer, plugin);
}

static const struct watch_ops watch_ops = {
    .may_use = on_may_use,
    .accepted = on_accepted,
    .refused = on_refused,
    .deferred = on_deferred,
    .output = on_output,
    .takes_rest = on_takes_rest,
    .input_taken = on_input_taken,
    .message = on_message,
    .progress = on_progress,
    .open = on_open,
    .done = on_done,
};

static void plugins_next(struct call *c);

static struct msg_function function_msg(const struct plugin_function_info *f)
{
    return (struct msg_function){.name = span(f->name),
                                 .help = line(f->help),
                                 .flags = f->flags,
                                 .crashes = f->crashes,
                                 .quarantine = f->in_quarantine ? 1u + f->on_probe : 0,
                                 .quarantine_usec = f->quarantine_usec,
                                 .why = line(f->why ? f->why : "")};
}

static void on_plugin(struct plugin_query *q, const struct plugin_info *info, int error)
{
    struct call *c = container_of(q, struct call, query);
    struct msg_function functions[CODEC_FUNCTIONS];
    struct msg m = {.type = FRAME_PLUGIN,
                    .plugin = {.name = {info->name, strnlen(info->name, CODEC_NAME_MAX - 1)},
                               .version = span(info->version),
                               .help = line(info->help),
                               .path = span(info->path),
                               .error = line(info->error),
                               .functions = functions,
                               .n_functions = MIN(info->n_functions, (size_t)CODEC_FUNCTIONS),
                               .apart = info->apart}};

    if (peer_full(c->peer)) { /* a small question has a large answer: it is asked again when there is room */
        c->at = c->asked;
        call_stall(c);
        return;
    }
    for (size_t i = 0; i < m.plugin.n_functions; i++)
        functions[i] = function_msg(&info->functions[i]);
    if (error && c->one) {
        peer_error(c->peer, c->tag,
                   error == EACCES   ? CODE_DENIED
                   : error == EAGAIN ? CODE_BUSY
                                     : CODE_NOT_FOUND,
                   info->error);
        call_free(c);
        return;
    }
    peer_send(c->peer, &m, c->tag, NULL, 0);
    if (c->at < c->n)
        call_later(c);
    else
        call_end(c);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void plugin_ask(struct call *c, const char *name)
{
    struct frontend *f = c->peer->frontend;

    c->query.answer = on_plugin;
    int r = jobs_plugin(f->options.jobs, c->peer->uid, name, c->peer->directory, &c->query);
    if (r == 0)
        return;
    peer_error(c->peer, c->tag,
               r == -EACCES         ? CODE_DENIED
               : r == -ENAMETOOLONG ? CODE_NOT_FOUND
                                    : CODE_BUSY,
               r == -EACCES ? "plugins by path are for a user's own wsd" : strerror(-r));
    call_free(c);
}

/* One after the other: each may have to be loaded first. */
static void plugins_next(struct call *c)
{
    if (c->at >= c->n) {
        call_end(c);
        return;
    }
    const char *name = c->names + c->at;
    c->asked = c->at;
    c->at += strlen(name) + 1;
    plugin_ask(c, name);
}

static void do_plugins(struct peer *p, uint32_t tag, const struct msg_plugins *m)
{
    struct call *c = call_new(p, tag, CALL_PLUGINS);

    if (!c)
        return;
    c->one = m->name.size > 0;
    if (c->one) {
        c->names = strdup(m->name.data);
        c->n = m->name.size + 1;
    }
    if (c->one ? !c->names : jobs_plugin_names(p->frontend->options.jobs, &c->names, &c->n) < 0) {
        peer_error(p, tag, CODE_BUSY, "out of memory");
        call_free(c);
        return;
    }
    plugins_next(c);
}

static void reload_next(struct call *c);

static void on_reloaded(struct plugin_query *q, const struct plugin_info *info, int error)
{
    struct call *c = container_of(q, struct call, query);
    struct peer *p = c->peer;
    bool kept = info->reloaded == RELOADED_KEPT;
    uint64_t owner = c->owners[c->at - 1];
    uint32_t code = error == EACCES ? CODE_DENIED : error == EAGAIN ? CODE_BUSY : error ? CODE_NOT_FOUND : 0;
    struct msg m = {.type = FRAME_RELOADED,
                    .reloaded = {.outcome = (uint32_t)info->reloaded,
                                 .uid = jobs_owner_uid(p->frontend->options.jobs, owner),
                                 .code = code,
                                 .name = {info->name, strnlen(info->name, CODEC_NAME_MAX - 1)},
                                 .path = span(info->path),
                                 .version = span(kept ? info->old_version : info->version),
                                 .build = span(kept ? info->old_build : info->build),
                                 .old_version = span(info->old_version),
                                 .old_build = span(info->old_build),
                                 .error = line(info->error)}};

    if (error && !kept) {
        peer_error(p, c->tag, code, info->error);
        call_free(c);
        return;
    }
    peer_send(p, &m, c->tag, NULL, 0);
    reload_next(c);
}

/* One executor after the other. */
static void reload_next(struct call *c)
{
    struct peer *p = c->peer;

    if (c->at >= c->n) {
        call_end(c);
        return;
    }
    c->query.answer = on_reloaded;
    int r =
        jobs_plugin_reload(p->frontend->options.jobs, p->uid, c->owners[c->at++], c->names, p->directory, &c->query);
    if (r == 0)
        return;
    peer_error(p, c->tag, CODE_BUSY,
               r == -EBUSY ? "it is being reloaded, or too many others are: try again" : strerror(-r));
    call_free(c);
}

static void do_reload(struct peer *p, uint32_t tag, const struct msg_reload *m)
{
    struct call *c = call_new(p, tag, CALL_RELOAD);
    int r;

    if (!c)
        return;
    c->names = strdup(m->name.data);
    r = c->names ? jobs_plugin_users(p->frontend->options.jobs, p->uid, !access_administer(p), c->names, p->directory,
                                     &c->owners, &c->n)
                 : -ENOMEM;
    if (r == 0) {
        reload_next(c);
        return;
    }
    peer_error(p, tag,
               r == -EACCES         ? CODE_DENIED
               : r == -ENAMETOOLONG ? CODE_NOT_FOUND
                                    : CODE_BUSY,
               r == -EACCES ? "plugins by path are for a user's own wsd" : strerror(-r));
    call_free(c);
}

static void do_release(struct peer *p, uint32_t tag, const struct msg_release *m)
{
    int r = jobs_plugin_release(p->frontend->options.jobs, p->uid, !access_administer(p), m->name.data,
                                m->function.data, p->directory);

    if (r == -ENOENT || r == -ENAMETOOLONG)
        peer_error(p, tag, CODE_NOT_FOUND, "nothing is known against it: see `wsctl plugin show`");
    else if (r == -EACCES)
        peer_error(p, tag, CODE_DENIED, "plugins by path are for a user's own wsd");
    else if (r < 0)
        peer_error(p, tag, CODE_BUSY, strerror(-r));
    else
        peer_send(p, &(struct msg){.type = FRAME_END}, tag, NULL, 0);
}

struct gate_answer {
    struct peer *peer;
    uint32_t tag;
};

static void send_gate(const struct jobs_gate_info *info, void *userdata)
{
    const struct gate_answer *a = userdata;
    const struct msg m = {
        .type = FRAME_GATE_STATE,
        .gate_state = {.plugin = {info->plugin, strlen(info->plugin)},
                       .function = {info->function, strlen(info->function)},
                       .flags = (info->paused ? GATE_PAUSED : 0u) | (info->drained ? GATE_DRAINED : 0u),
                       .limit = info->limit,
                       .running = info->running,
                       .waiting = info->waiting,
                       .tag = span(info->tag)}};

    if (*info->tag && !(a->peer->features & FEATURE_ORDER))
        return; /* it would be taken for everything */
    peer_send(a->peer, &m, a->tag, NULL, 0);
}

static void do_gate(struct peer *p, uint32_t tag, const struct msg_gate *m)
{
    struct jobs *jobs = p->frontend->options.jobs;
    const struct jobs_gate_request request = {.action = (enum jobs_gate_action)m->action,
                                              .uid = p->uid,
                                              .plugin = m->plugin.data,
                                              .function = m->function.data,
                                              .tag = m->tag.data,
                                              .limit = m->limit};
    const char *refusal = m->action == GATE_LIST ? NULL : access_administer(p);
    int r = 0;

    if (refusal) {
        peer_error(p, tag, CODE_DENIED, refusal);
        return;
    }
    if (m->action == GATE_LIST)
        jobs_gates(jobs, send_gate, &(struct gate_answer){p, tag});
    else
        r = jobs_gate(jobs, &request);
    if (r == 0)
        peer_send(p, &(struct msg){.type = FRAME_END}, tag, NULL, 0);
    else if (r == -ENOENT)
        peer_error(p, tag, CODE_NOT_FOUND, "it is neither paused nor limited: see `wsctl limit`");
    else
        peer_error(p, tag, r == -EINVAL ? CODE_USAGE : CODE_BUSY,
                   r == -EINVAL   ? "a limit is for a plugin, a function of it, or a tag; a drain is for all"
                   : r == -ENOSPC ? "too many are paused or limited: see `wsctl limit`"
                                  : strerror(-r));
}

static void send_limit(const struct frontend_limit *limit, void *userdata)
{
    const struct gate_answer *a = userdata;
    const struct msg m = {.type = FRAME_LIMIT_STATE,
                          .limit = {.flags = (limit->own ? LIMIT_OWN : 0u) | (limit->moved ? LIMIT_MOVED : 0u),
                                    .uid = limit->uid,
                                    .key = span(limit->key),
                                    .value = span(limit->value),
                                    .by = limit->by}};

    peer_send(a->peer, &m, a->tag, NULL, 0);
}

static void do_limit(struct peer *p, uint32_t tag, const struct msg_limit *m)
{
    const struct frontend_options *o = &p->frontend->options;
    bool moves = m->flags & LIMIT_MOVED;
    const char *refusal = !o->limits_ops ? "this wsd has no limits to show" : moves ? access_administer(p) : NULL;
    char error[FRONTEND_LIMIT_ERROR] = "out of memory";
    uint32_t sees = access_sees(p);
    int r = 0;

    if (refusal) {
        peer_error(p, tag, CODE_DENIED, refusal);
        return;
    }
    if (moves)
        r = o->limits_ops->set(o->limits_userdata, p->uid, m->flags & LIMIT_OWN, m->uid, m->key.data, m->value.data,
                               error);
    else
        r = o->limits_ops->each(o->limits_userdata, sees == ACCESS_ALL, sees, send_limit,
                                &(struct gate_answer){p, tag});
    if (r < 0)
        peer_error(p, tag, r == -EINVAL ? CODE_USAGE : CODE_BUSY, error);
    else
        peer_send(p, &(struct msg){.type = FRAME_END}, tag, NULL, 0);
}

void call_send_job(const struct job_info *info, void *userdata)
{
    struct call *c = userdata;
    struct msg m;

    job_msg(&m, FRAME_JOB, info);
    peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void on_decided(struct dead_query *q, int code, const char *text)
{
    struct call *c = container_of(q, struct call, dead);

    if (code == 0) {
        call_end(c);
        return;
    }
    peer_error(c->peer, c->tag, (uint32_t)code, text);
    call_free(c);
}

static void do_dead(struct peer *p, uint32_t tag, const struct msg_dead *m)
{
    struct call *c;

    if (m->action == DEAD_LIST) {
        list_jobs(p, tag, &(struct jobs_filter){.dead = true});
        return;
    }
    c = call_new(p, tag, CALL_DEAD);
    if (!c)
        return;
    c->dead.answer = on_decided;
    int r =
        jobs_dead(p->frontend->options.jobs, m->id.id, access_cancels(p), p->uid, m->action == DEAD_REQUEUE, &c->dead);
    if (r == 0)
        return;
    call_free(c);
    if (r == -ENOENT)
        peer_error(p, tag, CODE_NOT_FOUND, "no such job is out of retries: see `wsctl dead list`");
    else
        peer_error(p, tag, CODE_BUSY,
                   r == -EAGAIN  ? "wsd is draining"
                   : r == -EBUSY ? "it is being read or changed: try again"
                                 : strerror(-r));
}

static void on_scheduled(struct schedule_query *q, int code, const char *text, const uint8_t *id)
{
    struct call *c = container_of(q, struct call, schedule);
    struct msg m = {.type = FRAME_SCHEDULED, .scheduled = {.id = {.has_id = true}}};

    if (code != 0) {
        peer_error(c->peer, c->tag, (uint32_t)code, text);
        call_free(c);
        return;
    }
    if (c->action == SCHEDULE_RUN) {
        memcpy(m.scheduled.id.id, id, sizeof(m.scheduled.id.id));
        peer_send(c->peer, &m, c->tag, NULL, 0);
    }
    call_end(c);
}

static void send_schedule(const struct schedule_info *info, void *userdata)
{
    struct call *c = userdata;
    struct msg m = {.type = FRAME_SCHEDULED,
                    .scheduled = {.name = span(info->name),
                                  .calendar = span(info->calendar),
                                  .plugin = span(info->plugin),
                                  .function = span(info->function),
                                  .error = line(info->error),
                                  .uid = info->uid,
                                  .flags = (info->persistent ? SCHEDULED_PERSISTENT : 0u) |
                                           (info->configured ? SCHEDULED_CONFIGURED : 0u) |
                                           (info->running ? SCHEDULED_RUNNING : 0u),
                                  .state = info->state,
                                  .exit = info->exit,
                                  .next_usec = info->next_usec,
                                  .ran_usec = info->ran_usec,
                                  .runs = info->runs,
                                  .skipped = info->skipped,
                                  .id = {.has_id = info->ran_usec != 0}}};

    memcpy(m.scheduled.id.id, info->id, sizeof(m.scheduled.id.id));
    peer_send(c->peer, &m, c->tag, NULL, 0);
}

static void schedule_add(struct call *c, const struct msg_schedule *m)
{
    const struct schedule_request r = {.name = m->name.data,
                                       .calendar = m->calendar.data,
                                       .persistent = m->persistent,
                                       .job = {.plugin = m->job.plugin.data,
                                               .function = m->job.function.data,
                                               .args = m->job.args.data,
                                               .args_size = m->job.args.size,
                                               .argc = m->job.argc,
                                               .timeout_usec = m->job.timeout_usec,
                                               .priority = m->job.priority,
                                               .durable = m->job.flags & SUBMIT_DURABLE,
                                               .retries = m->job.retries,
                                               .retry_on = m->job.retry_on,
                                               .retry_usec = m->job.retry_usec,
                                               .queue_usec = m->job.queue_usec,
                                               .directory = c->peer->directory,
                                               .uid = c->peer->uid}};

    if (m->job.plugin.size)
        jobs_schedule_add(c->peer->frontend->options.jobs, &r, &c->schedule);
    else
        on_scheduled(&c->schedule, CODE_USAGE, "no plugin named", NULL);
}

static void do_schedule(struct peer *p, uint32_t tag, const struct msg_schedule *m)
{
    struct jobs *jobs = p->frontend->options.jobs;
    struct call *c = call_new(p, tag, CALL_SCHEDULE);

    if (!c)
        return;
    c->schedule.answer = on_scheduled;
    c->action = m->action;
    switch (m->action) {
    case SCHEDULE_ADD:
        schedule_add(c, m);
        break;
    case SCHEDULE_REMOVE:
        jobs_schedule_remove(jobs, p->uid, m->name.data, &c->schedule);
        break;
    case SCHEDULE_RUN:
        jobs_schedule_run(jobs, p->uid, m->name.data, &c->schedule);
        break;
    default:
        if (jobs_schedules(jobs, access_sees(p), send_schedule, c) == 0)
            call_end(c);
        else
            on_scheduled(&c->schedule, CODE_BUSY, "out of memory", NULL);
    }
}

/* It may be one of those on disk, where these cannot be read. */
static void no_such_job(struct peer *p, uint32_t tag, const uint8_t id[16])
{
    struct jobs *jobs = p->frontend->options.jobs;
    const char *why = jobs_unreadable(jobs);
    char text[256];
    struct batch_info batch;

    if (!why || jobs_batch_info(jobs, id, access_sees(p), &batch) == 0) {
        peer_error(p, tag, CODE_NOT_FOUND, "no such job");
        return;
    }
    snprintf(text, sizeof(text), "it is not one of those since wsd began, and the durable ones cannot be read: %.160s",
             why);
    peer_error(p, tag, CODE_IO, text);
}

static void do_status(struct peer *p, uint32_t tag, const struct msg_id *m)
{
    struct call c = {.peer = p, .tag = tag};

    if (jobs_info(p->frontend->options.jobs, m->id, access_sees(p), call_send_job, &c) < 0)
        no_such_job(p, tag, m->id);
}

static void cancel_watched(struct call *c)
{
    c->cancel = c->deferred;
    /* the right to see a job is not the right to cancel it */
    jobs_cancel_watched(&c->watch, access_cancels(c->peer), c->peer->uid);
}

void call_cancelled(struct peer *p, uint32_t tag, int r, const char *none)
{
    if (r == -EALREADY && p->features & FEATURE_ENDS)
        peer_error(p, tag, CODE_NOT_FOUND, "it has ended: there is nothing to cancel");
    else if (r < 0 && r != -EALREADY)
        peer_error(p, tag, CODE_NOT_FOUND, none);
    else
        peer_send(p, &(struct msg){.type = FRAME_END}, tag, NULL, 0);
}

static void do_cancel(struct peer *p, uint32_t tag, const struct msg_id *m)
{
    if (!m->has_id) {
        struct call *c = call_find(p, tag);

        /* a job that has not begun ends at once, and frees the call: c must not be used after this */
        if (c && (c->kind == CALL_SUBMIT || c->kind == CALL_AWAIT))
            cancel_watched(c);
        else if (c && c->kind == CALL_ARRAY)
            array_cancel(c, m->item);
        else if (c && c->kind == CALL_BATCH)
            call_batch_cancel(c);
        return;
    }
    int r = jobs_cancel(p->frontend->options.jobs, m->id, access_cancels(p), p->uid);
    if (r == -ENOENT)
        no_such_job(p, tag, m->id);
    else
        call_cancelled(p, tag, r, "no such job");
}

static void do_forget(struct peer *p, uint32_t tag)
{
    struct call *c = call_find(p, tag);

    if (!c || (c->kind != CALL_SUBMIT && c->kind != CALL_AWAIT && c->kind != CALL_ARRAY && c->kind != CALL_BATCH))
        return; /* it has had its end */
    jobs_unwatch(&c->watch);
    call_end(c);
}

static void do_await(struct peer *p, uint32_t tag, const struct msg_id *m)
{
    struct call *c = call_new(p, tag, CALL_AWAIT);

    if (!c)
        return;
    c->watch.ops = &watch_ops;
    c->watch.wants_progress = m->flags & SUBMIT_PROGRESS;
    c->accepted = jobs_accepted(p->frontend->options.jobs, m->id, access_sees(p));
    c->quiet = true; /* where it is accepted only then */
    int r = jobs_watch(p->frontend->options.jobs, m->id, access_sees(p), &c->watch);
    if (r == -EAGAIN && on_deferred(&c->watch, m->id))
        return; /* the next wsd checks its owner */
    if (r < 0) {
        if (r == -EAGAIN)
            peer_error(p, tag, CODE_BUSY, "wsd is ending: ask the next one");
        else
            no_such_job(p, tag, m->id);
        call_free(c);
    }
}

/* What in a SUBMIT is contradictory. NULL: nothing. */
static const char *contradiction(const struct msg_submit *m, const struct frame *frame)
{
    const uint32_t with_left = m->flags & (SUBMIT_DETACH | SUBMIT_MORE | SUBMIT_QUIET);

    if (!m->plugin.size)
        return "no plugin named";
    /* the client can send no more, and there is none for whom it could be cancelled */
    if (m->flags & SUBMIT_LEFT && with_left != SUBMIT_DETACH)
        return "flag 32 goes with 1, and not with 4 and 16";
    if (m->input_from != INPUT_BODY && (frame->body_size || m->flags & SUBMIT_MORE))
        return "input by descriptor goes without bytes of input";
    if (m->arena &&
        (m->flags & (SUBMIT_DETACH | SUBMIT_MORE | SUBMIT_DURABLE) || m->key.size || m->retries || m->batch))
        return "an arena ends with its connection: not with flags 1, 4 and 8, a key, retries, or a batch";
    return NULL;
}

struct job_request call_request(const struct peer *p, const struct msg_submit *m)
{
    return (struct job_request){
        .plugin = m->plugin.data,
        .function = m->function.data,
        .args = m->args.data,
        .args_size = m->args.size,
        .argc = m->argc,
        .timeout_usec = m->timeout_usec,
        .priority = m->priority,
        .detached = m->flags & SUBMIT_DETACH,
        .progress = m->flags & SUBMIT_PROGRESS,
        .more_input = m->flags & SUBMIT_MORE,
        .durable = m->flags & SUBMIT_DURABLE,
        .key = m->key.data,
        .retries = m->retries,
        .retry_on = m->retry_on,
        .retry_usec = m->retry_usec,
        .delay_usec = m->delay_usec,
        .at_usec = m->at_usec,
        .queue_usec = m->queue_usec,
        .after = (const uint8_t *)m->after.data,
        .n_after = (uint32_t)(m->after.size / 16),
        .after_any = (const uint8_t *)m->after_any.data,
        .n_after_any = (uint32_t)(m->after_any.size / 16),
        .tags = m->tags.data,
        .directory = p->directory,
        .uid = p->uid,
    };
}

uint32_t call_cost(const struct job_request *r)
{
    return (r->n_after + r->n_after_any) * COST_AFTER + (r->delay_usec || r->at_usec ? COST_LATER : 0) +
           (r->key && *r->key ? COST_KEY : 0);
}

/* fd: of the input, where it has one; taken where the job has it. */
static void do_submit(struct peer *p, uint32_t tag, const struct msg_submit *m, const struct frame *frame, int *fd)
{
    struct call *c = call_new(p, tag, CALL_SUBMIT);
    struct job_file file = {.fd = fd, .offset = m->input_offset, .size = m->input_size};
    struct job_request r = call_request(p, m);
    const char *problem = contradiction(m, frame);
    uint32_t code = CODE_USAGE;
    struct job_parts parts = {.arena = m->arena ? arena_find(p, m->arena) : NULL,
                              .output = {m->output_offset, m->output_size}};

    if (!c)
        return;
    share_charge(p, call_cost(&r));
    if (m->input_from == INPUT_ARENA)
        parts.input = (struct job_part){m->input_offset, m->input_size};
    if (!problem && m->arena && !parts.arena)
        problem = "no such arena";
    r.parts = parts.arena ? &parts : NULL;
    r.input = frame->body;
    r.input_size = frame->body_size;
    r.file = m->input_from == INPUT_FILE ? &file : NULL;
    if (!problem && m->batch)
        problem = r.durable || m->key.size ? "a job of a batch is not durable, and has no key"
                                           : call_in_batch(p, m->batch, &r, &code);
    if (problem) {
        peer_error(p, tag, code, problem);
        call_free(c);
        return;
    }
    c->watch.ops = &watch_ops;
    c->watch.wants_progress = r.progress;
    c->in_sent = frame->body_size;
    c->quiet = m->flags & SUBMIT_QUIET;
    c->left = m->flags & SUBMIT_LEFT;
    if (jobs_submit(p->frontend->options.jobs, &r, &c->watch) < 0) {
        peer_error(p, tag, CODE_BUSY, "out of memory");
        call_free(c);
    }
}

static void do_input(struct peer *p, uint32_t tag, const struct msg_chunk *m, const struct frame *frame)
{
    struct call *c = call_find(p, tag);

    if (!c || c->kind != CALL_SUBMIT)
        return; /* it crossed the end of its call */
    if (m->offset != c->in_sent || c->in_sent + frame->body_size > c->in_allowed) {
        peer_fail(p, "input at a wrong offset or beyond the window");
        return;
    }
    c->in_sent += frame->body_size;
    int r = jobs_input(&c->watch, frame->body, frame->body_size, m->last);
    if (r < 0)
        peer_fail(p, r == -EPROTO ? "input that was not announced" : "out of memory");
}

static void do_credit(struct peer *p, uint32_t tag, const struct msg_credit *m)
{
    struct call *c = call_find(p, tag);

    if (c && c->kind == CALL_ARRAY) {
        array_credit(c, m->item, m->bytes); /* its last item may end by it, and the call with it */
        return;
    }
    if (!c || (c->kind != CALL_SUBMIT && c->kind != CALL_AWAIT))
        return;
    c->out_allowed = m->bytes > UINT64_MAX - c->out_allowed ? UINT64_MAX : c->out_allowed + m->bytes;
    jobs_output_ready(&c->watch);
}

static void do_opened(struct peer *p, uint32_t tag, const struct msg_opened *m, int *fd)
{
    struct call *c = call_find(p, tag);

    if (p->n_opens == 0 || m->error > 4095) {
        peer_fail(p, "OPENED that was not asked for");
        return;
    }
    p->n_opens--;
    struct watch *w = !c                       ? NULL
                      : c->kind == CALL_SUBMIT ? &c->watch
                      : c->kind == CALL_ARRAY  ? array_watch(c, m->item)
                                               : NULL;
    if (w)
        jobs_opened(w, m->serial, (int)m->error, *fd);
}

static void do_stats(struct peer *p, uint32_t tag)
{
    struct jobs_counters n;

    jobs_counters(p->frontend->options.jobs, &n);
    const struct msg_counter counters[] = {
        {span("jobs_submitted"), n.submitted},
        {span("jobs_bundled"), n.bundled},
        {span("jobs_refused"), n.refused},
        {span("jobs_open"), n.n_open},
        {span("jobs_queued"), n.n_queued},
        {span("jobs_handed_over"), n.n_handed},
        {span("jobs_succeeded"), n.succeeded},
        {span("jobs_failed"), n.failed},
        {span("jobs_cancelled"), n.cancelled},
        {span("jobs_timed_out"), n.timed_out},
        {span("jobs_crashed"), n.crashed},
        {span("jobs_interrupted"), n.interrupted},
        {span("jobs_run_again"), n.rerun},
        {span("jobs_tried_again"), n.retried},
        {span("jobs_on_disk_ended"), n.n_stored},
        {span("jobs_dead"), n.n_dead},
        {span("store_bytes"), n.store_bytes},
        {span("results_kept"), n.n_kept},
        {span("results_being_read"), n.n_unread},
        {span("bytes_charged"), n.n_bytes},
        {span("executors"), n.n_executors},
        {span("executors_started"), n.executors_started},
        {span("executors_died"), n.executors_died},
        {span("executors_distrusted"), n.liars},
        {span("traces"), n.n_traces},
        {span("direct_lanes"), n.n_lanes},
        {span("direct_calls"), n.direct_calls},
        {span("direct_running"), n.direct_running},
        {span("direct_cpu_usec"), n.direct_cpu_usec},
        {span("direct_crashed"), n.direct_crashed},
        {span("direct_interrupted"), n.direct_interrupted},
        {span("direct_timed_out"), n.direct_timed_out},
        {span("connections"), p->frontend->n_peers},
        {span("connections_closing"), p->frontend->n_closing},
        {span("bytes_unread"), p->frontend->n_unread},
        {span("request_units"), p->frontend->shares.units},
        {span("request_units_turn_most"), p->frontend->shares.most},
        {span("output_bytes_turn_most"), n.output_most},
    };
    struct msg m = {.type = FRAME_COUNTERS, .stats = {.counters = counters, .n_counters = ARRAY_SIZE(counters)}};

    peer_send(p, &m, tag, NULL, 0);
}

static uint64_t own_features(const struct peer *p)
{
    return FEATURE_STORE | FEATURE_FORGET | FEATURE_BRIEF | FEATURE_TIME | FEATURE_ORDER | FEATURE_WHERE |
           FEATURE_ARRAY | FEATURE_LIMITS | FEATURE_ALIKE | FEATURE_ENDS | (p->remote ? 0 : FEATURE_PAYLOAD) |
           (jobs_lanes_available() && !p->remote ? FEATURE_LANE : 0);
}

static void do_hello(struct peer *p, const struct msg_hello *m)
{
    uint64_t features = own_features(p);
    struct msg answer = {
        .type = FRAME_WELCOME,
        .welcome = {
            .version = 1, .features = features, .program = span("wsd " WSD_VERSION), .window = JOBS_INPUT_WINDOW}};

    if (p->greeted) {
        peer_fail(p, "a second HELLO");
        return;
    }
    if (m->version_min > 1 || m->version_max < 1) {
        peer_fail(p, "no protocol version in common: this is wsd " WSD_VERSION ", which speaks version 1");
        return;
    }
    if (m->directory.size) {
        if (m->directory.data[0] != '/') {
            peer_fail(p, "a working directory that is not absolute");
            return;
        }
    }
    if (m->directory.size || p->remote) {
        p->directory = directory_new(p->remote ? DIRECTORY_REMOTE : m->directory.data);
        if (!p->directory) {
            peer_fail(p, "out of memory");
            return;
        }
    }
    log_debug("uid %u pid %d speaks: %s", p->uid, p->pid, m->program.data);
    p->window = m->window;
    p->features = m->features & features;
    p->greeted = true;
    peer_send(p, &answer, 0, NULL, 0);
}

bool dispatch_take(struct peer *p, const struct handover_peer *k, const char *directory)
{
    _cleanup_(freep) char *path = NULL;

    if (!(k->flags & HANDOVER_GREETED))
        return true;
    if (k->features & ~own_features(p) || k->n_opens > PEER_OPENS || k->directory_size >= CODEC_PATH_MAX)
        return p->failed = true, false;
    path = k->directory_size ? strndup(directory, k->directory_size) : NULL;
    p->directory = path && *path == '/' ? directory_new(path) : NULL;
    if (k->directory_size && !p->directory)
        return p->failed = true, false;
    p->window = k->window;
    p->features = k->features;
    p->n_opens = k->n_opens;
    p->greeted = true;
    return true;
}

void dispatch_take_call(struct peer *p, const struct handover_call *k)
{
    bool submit = k->flags & HANDOVER_SUBMIT;
    struct call *c = p->greeted ? call_new(p, k->tag, submit ? CALL_SUBMIT : CALL_AWAIT) : NULL;

    if (!c)
        return;
    c->out_allowed = k->out_allowed;
    c->watch.ops = &watch_ops;
    c->watch.wants_progress = k->flags & HANDOVER_PROGRESS;
    c->accepted = true;
    c->watch.owner = submit; /* the job asks this client for its files */
    int r = jobs_watch(p->frontend->options.jobs, k->id, submit ? p->uid : access_sees(p), &c->watch);
    if (r < 0) {
        const struct msg m = {
            .type = FRAME_ERROR,
            .error = {.code = CODE_INTERRUPTED,
                      .text = span("the job is not in the store any more: it is not known how it ended"),
                      .accepted = p->features & FEATURE_ENDS}};

        peer_send(p, &m, k->tag, NULL, 0);
        call_free(c);
        return;
    }
    c = call_find(p, k->tag); /* NULL: it had ended */
    if (c && k->flags & HANDOVER_CANCEL)
        cancel_watched(c);
}

/* Whether the request loads plugins or runs jobs. Others concern the user's own objects, or need a right of their
 * own. */
static bool wants_submit(uint16_t type)
{
    return type == FRAME_SUBMIT || type == FRAME_ARRAY || type == FRAME_PLUGINS || type == FRAME_RELOAD ||
           type == FRAME_RELEASE || type == FRAME_LANE_OPEN || type == FRAME_LANE_BIND || type == FRAME_ARENA_OPEN ||
           type == FRAME_SCHEDULE;
}

static const char *plugin_of(const struct msg *m)
{
    switch (m->type) {
    case FRAME_SUBMIT:
    case FRAME_ARRAY:
        return m->submit.plugin.data;
    case FRAME_PLUGINS:
        return m->plugins.name.data;
    case FRAME_RELOAD:
        return m->reload.name.data;
    case FRAME_RELEASE:
        return m->release.name.data;
    case FRAME_SCHEDULE:
        return m->schedule.action == SCHEDULE_ADD ? m->schedule.job.plugin.data : "";
    default:
        return "";
    }
}

/* A descriptor comes with its first byte. */
static bool brings_fd(const struct msg *m)
{
    return m->type == FRAME_ARENA_OPEN || (m->type == FRAME_SUBMIT && m->submit.input_from == INPUT_FILE) ||
           (m->type == FRAME_OPENED && m->opened.error == 0);
}

uint32_t dispatch_cost(uint16_t type)
{
    switch (type) {
    case FRAME_INPUT:
    case FRAME_CREDIT:
    case FRAME_PING:
    case FRAME_CANCEL:
    case FRAME_FORGET:
    case FRAME_OPENED:
    case FRAME_STATUS:
        return 200;
    case FRAME_SUBMIT:
        return 1000;
    case FRAME_STATS:
        return 4000;
    case FRAME_WORKERS:
    case FRAME_LIMIT:
    case FRAME_PLUGINS:
        return 20000;
    default:
        return 2000;
    }
}

void dispatch(struct peer *p, const struct frame *frame)
{
    _cleanup_(async_closep) struct async_close file = {.fd = -1, .owner = p->uid};
    const char *refusal;
    struct msg m;
    int r = codec_decode(p->frontend->codec, frame, &m);

    if (r != 0) {
        peer_fail(p, "%s", codec_strerror(p->frontend->codec));
        return;
    }
    if (!p->greeted && frame->type != FRAME_HELLO) {
        peer_fail(p, "the first frame is not HELLO");
        return;
    }
    if (frame->tag == 0 && frame->type != FRAME_HELLO) {
        peer_fail(p, "a request with tag 0");
        return;
    }
    file.fd = brings_fd(&m) ? peer_take_fd(p) : -1;
    if (brings_fd(&m) && file.fd < 0) {
        peer_fail(p, "%s without its descriptor", codec_type_name(m.type));
        return;
    }
    if ((frame->type == FRAME_ARRAY || frame->type == FRAME_BATCH) && !(p->features & FEATURE_ARRAY)) {
        peer_fail(p, "%s without feature 128 in HELLO", codec_type_name(frame->type));
        return;
    }
    refusal = wants_submit(frame->type) ? access_submit(p) : NULL;
    if (!refusal)
        refusal = access_path(p, plugin_of(&m));
    if (refusal) {
        peer_error(p, frame->tag, CODE_DENIED, refusal);
        return;
    }
    switch (frame->type) {
    case FRAME_HELLO:
        do_hello(p, &m.hello);
        break;
    case FRAME_SUBMIT:
        do_submit(p, frame->tag, &m.submit, frame, &file.fd);
        break;
    case FRAME_ARRAY:
        array_submit(p, frame->tag, &m.submit, frame);
        break;
    case FRAME_BATCH:
        call_batch(p, frame->tag, &m.batch);
        break;
    case FRAME_INPUT:
        do_input(p, frame->tag, &m.chunk, frame);
        break;
    case FRAME_CREDIT:
        do_credit(p, frame->tag, &m.credit);
        break;
    case FRAME_CANCEL:
        do_cancel(p, frame->tag, &m.id);
        break;
    case FRAME_FORGET:
        do_forget(p, frame->tag);
        break;
    case FRAME_AWAIT:
        do_await(p, frame->tag, &m.id);
        break;
    case FRAME_STATUS:
        do_status(p, frame->tag, &m.id);
        break;
    case FRAME_LIST:
        list_jobs(p, frame->tag, &(struct jobs_filter){.limit = 0});
        break;
    case FRAME_LIST_WHERE:
        list_where(p, frame->tag, &m.filter);
        break;
    case FRAME_CANCEL_WHERE:
        list_cancel(p, frame->tag, &m.filter);
        break;
    case FRAME_PLUGINS:
        do_plugins(p, frame->tag, &m.plugins);
        break;
    case FRAME_GATE:
        do_gate(p, frame->tag, &m.gate);
        break;
    case FRAME_LIMIT:
        do_limit(p, frame->tag, &m.limit);
        break;
    case FRAME_RELEASE:
        do_release(p, frame->tag, &m.release);
        break;
    case FRAME_RELOAD:
        do_reload(p, frame->tag, &m.reload);
        break;
    case FRAME_STATS:
        do_stats(p, frame->tag);
        break;
    case FRAME_PING:
        peer_send(p, &(struct msg){.type = FRAME_PONG}, frame->tag, frame->body, frame->body_size);
        break;
    case FRAME_OPENED:
        do_opened(p, frame->tag, &m.opened, &file.fd);
        break;
    case FRAME_WORKERS:
        ask_workers(p, frame->tag, &m.workers);
        break;
    case FRAME_DEAD:
        do_dead(p, frame->tag, &m.dead);
        break;
    case FRAME_SCHEDULE:
        do_schedule(p, frame->tag, &m.schedule);
        break;
    case FRAME_ARENA_OPEN:
        arena_open(p, frame->tag, &file.fd);
        break;
    case FRAME_ARENA_CLOSE:
        arena_close(p, frame->tag);
        break;
    case FRAME_LANE_OPEN:
        lane_open(p, frame->tag);
        break;
    case FRAME_LANE_BIND:
        lane_bind(p, frame->tag, &m.lane_bind);
        break;
    case FRAME_LANE_WAITS:
        lane_waits(p, frame->tag);
        break;
    case FRAME_LANE_CLOSE:
        lane_close(p, frame->tag);
        break;
    case FRAME_TRACE:
        ask_trace(p, frame->tag, &m.trace);
        break;
    default:
        peer_fail(p, "a frame that only wsd sends");
        break;
    }
}

void dispatch_room(struct peer *p)
{
    while (!list_empty(&p->stalled) && !peer_full(p) && !p->failed) {
        struct call *c = container_of(list_pop_front(&p->stalled), struct call, stalled);

        if (c->over)
            call_leave(c);
        else if (c->kind == CALL_LIST)
            call_later(c);
        else if (c->kind == CALL_TRACE)
            ask_pump(c);
        else if (c->kind == CALL_ARRAY)
            array_room(c);
        else if (c->kind == CALL_PLUGINS)
            plugins_next(c);
        else
            jobs_output_ready(&c->watch);
    }
}

void dispatch_later(struct peer *p)
{
    struct list *l = list_pop_front(&p->later);
    struct call *c = l ? container_of(l, struct call, stalled) : NULL;

    if (c && c->kind == CALL_PLUGINS)
        plugins_next(c);
    else if (c)
        list_pump(c);
}

bool dispatch_closed(struct peer *p, uint32_t *budget)
{
    while (!list_empty(&p->calls)) {
        struct call *c = container_of(p->calls.next, struct call, link);

        if (!*budget)
            return false;
        *budget -= MIN(*budget, 1 + array_items(c) + jobs_awaited(&c->watch) / AFTER_A_CALL);
        jobs_unwatch(&c->watch);
        call_free(c);
    }
    jobs_trace_drop(p->frontend->options.jobs, p->trace);
    return true;
}
