/* SPDX-License-Identifier: Apache-2.0
 *
 * job-watch.c: the calls that follow one job: what the job table tells of it becomes frames.
 * Owns nothing beyond them. [loop]
 * Keeps: windows of output and credits of input; what is told of a deferred job is told by the next wsd.
 * Holds no policy: the job table decides what is allowed, and when. */
#include "frontend/job-watch.h"

#include <errno.h>

#include "base/cleanup.h"
#include "frontend/access.h"

#define AFTER_A_CALL 8u /* so many jobs that run after a job cost as much to forget as one call */

static struct call *call_of(struct watch *w)
{
    return container_of(w, struct call, job.watch);
}

static void on_accepted(struct watch *w, const uint8_t id[16])
{
    struct call *c = call_of(w);

    c->job.accepted = true;
    if (c->job.quiet)
        return;
    struct msg m = {.type = FRAME_ACCEPTED, .id = {.has_id = true}};
    memcpy(m.id.id, id, sizeof(m.id.id));
    peer_send(c->peer, &m, c->tag, NULL, 0);
    if (c->job.left) {
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
    bool taken = says && c->job.accepted && c->job.submits && code == CODE_BUSY;
    const struct msg m = {.type = FRAME_ERROR,
                          .error = {.code = taken ? CODE_INTERRUPTED : (uint32_t)code,
                                    .text = line(text),
                                    .retry_usec = taken ? 0 : retry_usec,
                                    .accepted = says && c->job.accepted}};

    c->peer->n_refused++;
    if (!c->over)
        peer_send(c->peer, &m, c->tag, NULL, 0);
    call_free(c);
}

/* Its connection will be the next wsd's, which has the job. */
static bool on_deferred(struct watch *w, const uint8_t id[16])
{
    struct call *c = call_of(w);

    if (c->over || c->peer->remote || c->peer->acting || !c->peer->frontend->options.keeps)
        return false;
    memcpy(c->job.id, id, sizeof(c->job.id));
    c->job.deferred = true;
    return true;
}

static size_t on_output(struct watch *w, const void *data, size_t size)
{
    struct call *c = call_of(w);
    size_t done = 0;

    if (c->over)
        return 0;
    while (done < size && c->job.out_sent < c->job.out_allowed) {
        size_t n = MIN(MIN(size - done, c->job.out_allowed - c->job.out_sent), (size_t)FRAME_BODY_CHUNK);
        struct msg m = {.type = FRAME_OUTPUT, .chunk = {.offset = c->job.out_sent}};

        if (peer_full(c->peer)) {
            call_stall(c);
            break;
        }
        peer_send(c->peer, &m, c->tag, (const uint8_t *)data + done, n);
        c->job.out_sent += n;
        done += n;
    }
    return done;
}

static bool on_takes_rest(struct watch *w, size_t size)
{
    struct call *c = call_of(w);

    return size <= FRAME_BODY_CHUNK && size <= c->job.out_allowed - c->job.out_sent && !peer_full(c->peer);
}

static void on_input_taken(struct watch *w, size_t size)
{
    struct call *c = call_of(w);
    struct msg m = {.type = FRAME_CREDIT, .credit = {.bytes = size}};

    c->job.in_allowed += size;
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

int open_prepare(struct call *c, uint32_t serial, const char *path, uint32_t item, struct msg *ret)
{
    *ret = (struct msg){.type = FRAME_OPEN, .open = {.serial = serial, .path = span(path), .item = item}};
    if (c->peer->failed)
        return -ENOTCONN;
    if (c->peer->remote)
        return -EREMOTE; /* no descriptor comes from there */
    if (c->peer->acting)
        return -EACCES; /* the client would open it with the rights of another user */
    if (peer_full(c->peer) || c->peer->n_opens >= PEER_OPENS)
        return -EMFILE; /* a job must not pile up requests that the client has to answer */
    c->peer->n_opens++;
    return 0;
}

static int on_open(struct watch *w, uint32_t serial, const char *path)
{
    struct call *c = call_of(w);
    struct msg m;
    int r = open_prepare(c, serial, path, 0, &m);

    if (r == 0)
        peer_send(c->peer, &m, c->tag, NULL, 0);
    return r;
}

static void job_msg(struct msg *m, uint16_t type, const struct job_info *info)
{
#define TOLD(kind, name, ...)        .name = TOLD_##kind(info->name),
#define TOLD_TEXT                    span
#define TOLD_TAGS                    span
#define TOLD_LINE                    line
#define TOLD_NUMBER(kind, name, ...) .name = (SUBMIT_TYPE_##kind)info->name,
    *m = (struct msg){.type = type,
                      .job = {.batch = {(const char *)info->batch, info->batch ? sizeof(info->id) : 0},
                              JOB_FIELDS(TOLD, TOLD_NUMBER, SUBMIT_NOTHING)}};
    memcpy(m->job.id, info->id, sizeof(m->job.id));
    if (info->near) {
        m->job.waits_on = (struct span){(const char *)info->near->before, info->near->n_before * sizeof(info->id)};
        m->job.awaited_by = (struct span){(const char *)info->near->behind, info->near->n_behind * sizeof(info->id)};
    }
}
_Static_assert(JOB_NEAR == CODEC_NEAR, "all are told");

/* Whether FINISHED says all of it. */
static bool is_finished(const struct job_info *info)
{
#define NO_TEXT(kind, name, most, problem, finished) NO_TEXT_##finished(name)
#define NO_TEXT_YES(name)
#define NO_TEXT_NO(name)                               &&!*info->name
#define NO_NUMBER(kind, name, most, problem, finished) NO_NUMBER_##finished(name)
#define NO_NUMBER_YES(name)
#define NO_NUMBER_NO(name) &&!info->name
    return info->state == JOB_SUCCEEDED && !info->batch JOB_FIELDS(NO_TEXT, NO_NUMBER, SUBMIT_NOTHING);
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
    if (p->features & FEATURE_BRIEF && is_finished(info)) {
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

/* Takes out what the job's user or the job itself has written. */
static void hide_texts(struct msg_job *m)
{
#define HIDE(kind, name, most, problem, finished) HIDE_##finished(name)
#define HIDE_YES(name)
#define HIDE_NO(name) m->name = (struct span){"", 0};
    JOB_FIELDS(HIDE, SUBMIT_NOTHING, SUBMIT_NOTHING)
    m->batch = (struct span){"", 0};
}

void send_job(const struct job_info *info, void *userdata)
{
    struct call *c = userdata;
    struct msg m;

    job_msg(&m, FRAME_JOB, info);
    if (!access_reads(c->peer, info->uid))
        hide_texts(&m.job);
    peer_send(c->peer, &m, c->tag, NULL, 0);
}

/* --- the call ----------------------------------------------------------------------------------------------------- */

static void job_forget(struct call *c)
{
    jobs_unwatch(&c->job.watch);
}

static void job_room(struct call *c)
{
    jobs_output_ready(&c->job.watch);
}

static void job_cancel(struct call *c, uint32_t item)
{
    c->job.cancel = c->job.deferred;
    /* The right to see a job is not the right to cancel it. A job that has not begun ends at once, and frees the
     * call. */
    jobs_cancel_watched(&c->job.watch, access_cancels(c->peer), c->peer->uid);
}

static void job_credit(struct call *c, const struct msg_credit *m)
{
    uint64_t *allowed = &c->job.out_allowed;

    *allowed = m->bytes > UINT64_MAX - *allowed ? UINT64_MAX : *allowed + m->bytes;
    jobs_output_ready(&c->job.watch);
}

static struct watch *job_opener(struct call *c, uint32_t item)
{
    return c->job.submits ? &c->job.watch : NULL;
}

static uint32_t job_weight(const struct call *c)
{
    return jobs_awaited(&c->job.watch) / AFTER_A_CALL;
}

static const struct call_ops ops = {.forget = job_forget,
                                    .room = job_room,
                                    .cancel = job_cancel,
                                    .credit = job_credit,
                                    .opener = job_opener,
                                    .weight = job_weight,
                                    .leaves = true};

struct call *job_call_new(struct peer *p, uint32_t tag, bool submits, bool progress)
{
    struct call *c = call_open(p, tag, &ops);

    if (!c)
        return NULL;
    c->job = (struct call_job){.watch = {.ops = &watch_ops, .wants_progress = progress},
                               .out_allowed = p->window,
                               .in_allowed = JOBS_INPUT_WINDOW,
                               .submits = submits};
    list_init(&c->job.watch.progress);
    return c;
}

bool call_has_job(const struct call *c)
{
    return c->ops == &ops;
}

bool job_call_defer(struct call *c, const uint8_t id[16])
{
    return on_deferred(&c->job.watch, id);
}
