/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.c: WSD_SUBMIT_DIRECT: jobs that go by the direct lane (ring/lane-ring.h) while the program does something
 * else.
 * Owns the slots of the lane that it has filled, until the end of each of their calls is told. One thread a handle.
 * Keeps: each call is told once, whichever way it goes. Calls of one function share a slot until the next flush, if
 * they are brief. A call that takes longer than usual keeps those behind it from other workers for HELD_USEC. What a
 * worker or wsd gives back without having begun it goes by the socket, and so does what wsd calls idempotent.
 * Does not know how a lane comes and goes (lane-binding.c), and waits for nothing. */
#include "direct.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/code.h"
#include "client.h"
#include "lane-binding.h"
#include "submit.h"

#define HELD_USEC  5000u    /* until those behind a call in its slot are taken back */
#define WAITS_USEC 1000000u /* wsd hears of a long wait so often */
#define AGAIN_ARGS 64u      /* of a call that goes by the lane again after it was taken back */

/* A slot of the lane, with n calls. It is filled, pushed, and ended, when its calls are told one by one. At any time
 * before it has ended, those that have not begun may be taken back. If it is `lost`, its connection is over, or this
 * process does not have the lane; what has no end has one then. It is freed when all are told and no callback is under
 * way. */
struct flight {
    struct call_unit unit; /* of each of them */
    struct list link;      /* direct->flights, oldest first */
    struct direct *direct;
    struct function *function;
    uint64_t timeout_usec, pushed_usec;
    uint32_t slot, n;
    uint32_t next;  /* the ends of those before it are told, or being told */
    uint32_t taken; /* those from here on were taken back, and go by the socket */
    unsigned busy;  /* callbacks out of its ends */
    bool pushed, ended;
    bool late; /* it has taken HELD_USEC: no further call of it begins */
    bool lost;
    bool forgotten;                     /* this process does not have its memory, nor that of the others */
    struct wsd_call *calls[LANE_ITEMS]; /* NULL: its end is told */
};

struct direct {
    struct wsd_client *client;
    struct request request; /* open while there are flights, for the end of the connection */
    struct list flights;
    struct flight *filling; /* the newest of them, which calls are added to; NULL: there is none */
    uint32_t n_pushed;      /* slots that no worker was told of yet */
    uint32_t n_flights;     /* in the list, */
    uint32_t n_lost;        /* and of them lost, with callbacks under way */
    bool relies;            /* on what is under way being brief */
    bool more;              /* ends are to be told, or calls to be sent */
    bool wants;             /* a notice was asked for */
    uint32_t n_owed;        /* notices that have come or are on their way, and were not read */
    uint64_t n_frames;      /* of the connection, when last looked at */
    uint64_t waits_usec;    /* when wsd is to hear that something waits */
    struct flight at[LANE_SLOTS];
};

static struct flight *flight_of(const struct wsd_call *call)
{
    return container_of(call->unit, struct flight, unit);
}

static struct lane_client *ring_of(const struct direct *d)
{
    return &d->client->lane->ring;
}

/* This process does not have the lane's memory. */
static bool is_forgotten(const struct direct *d)
{
    return !list_empty(&d->flights) && container_of(d->flights.next, struct flight, link)->forgotten;
}

/* --- pushing ------------------------------------------------------------------------------------------------------ */

/* All that is under way is over before another worker would be awake. Slots of a wsd_call() that has brought us here
 * may not be. */
static bool is_brief(struct direct *d)
{
    uint64_t usec = 0;

    if (d->client->lane->depth > d->n_flights)
        return false;
    list_for_each_entry (struct flight, f, &d->flights, link) {
        if (f->ended)
            continue;
        usec += f->late ? RING_WORTH_USEC : lane_expected_usec(f->function, f->n);
        if (usec >= RING_WORTH_USEC)
            return false;
    }
    return true;
}

/* No further call comes into the slot. */
static void push_filled(struct direct *d)
{
    struct flight *f = TAKE(d->filling);

    if (!f)
        return;
    for (uint32_t i = 0; i < f->n; i++)
        if (f->calls[i])
            f->calls[i]->sent_at = 0;
    f->pushed = true;
    d->relies |= f->n > 1;
    if (!d->wants) /* before it can end */
        lane_client_want_notice(ring_of(d));
    d->wants = true;
    lane_client_push(ring_of(d), f->slot, f->function->number, f->timeout_usec);
    d->n_pushed++;
}

void direct_push(struct wsd_client *client)
{
    struct direct *d = client->direct;

    if (!d || is_forgotten(d))
        return;
    push_filled(d);
    if (!d->n_pushed)
        return;
    uint64_t now = clock_monotonic_usec();
    for (struct list *l = d->flights.prev; l != &d->flights; l = l->prev) {
        struct flight *f = container_of(l, struct flight, link);

        if (f->pushed_usec)
            break;
        f->pushed_usec = now;
    }
    bool brief = is_brief(d);
    lane_client_ring(ring_of(d), d->n_pushed, brief);
    d->n_pushed = 0;
    d->relies |= brief;
}

/* --- the end of calls --------------------------------------------------------------------------------------------- */

static void flight_free(struct flight *f)
{
    struct direct *d = f->direct;

    if (d->filling == f)
        d->filling = NULL;
    list_remove(&f->link);
    d->n_flights--;
    d->n_lost -= f->lost;
    if (list_empty(&d->flights)) {
        request_close(&d->client->connection, &d->request);
        d->relies = d->more = false;
    }
}

/* One that succeeded, as far as all of the slot have it in common. */
static struct msg_job job_of(const struct flight *f)
{
    return (struct msg_job){.plugin = {f->function->plugin, strlen(f->function->plugin)},
                            .function = {f->function->name, strlen(f->function->name)},
                            .attempts = 1,
                            .state = WSD_JOB_SUCCEEDED};
}

static void end_call(struct flight *f, uint32_t i, const struct msg_job *job, const void *output, size_t size)
{
    struct wsd_client *client = f->direct->client;
    struct wsd_call *call = f->calls[i];
    uint8_t bytes[LANE_OUTPUT]; /* the executor may write there while a callback looks */

    if (size)
        memcpy(bytes, output, size);
    call_has_ended(client, call, job, bytes, size);
}

/* By the socket: the call was not begun, or may run twice. */
static void send_call(struct flight *f, uint32_t i, bool begun)
{
    struct wsd_client *client = f->direct->client;
    struct wsd_call *call = f->calls[i];
    struct msg_job cancelled = job_of(f);
    struct msg msg = {.type = FRAME_SUBMIT,
                      .submit = {.plugin = cancelled.plugin,
                                 .function = cancelled.function,
                                 .args = {call->args, call->args_size},
                                 .argc = call->argc,
                                 .timeout_usec = f->timeout_usec,
                                 .flags = call->quiet ? SUBMIT_QUIET : 0,
                                 .tags = {.data = ""}}};

    if (call->cancelled) {
        cancelled.state = WSD_JOB_CANCELLED;
        cancelled.exit = CODE_CANCELLED;
        cancelled.attempts = 0;
        call_has_ended(client, call, &cancelled, NULL, 0);
        return;
    }
    f->calls[i] = NULL;
    call->unit = NULL;
    int r = request_open(&client->connection, &call->request);
    if (r == 0)
        r = connection_send(&client->connection, &msg, call->request.tag, call->input, call->input_size);
    call->sent_at = begun ? 0 : r < 0 ? UINT64_MAX : connection_position(&client->connection);
    call->input_size = 0;
    if (r < 0 && client->connection.broken)
        call_lost(client, call);
    else if (r < 0)
        call_fail(call, connection_failed(&client->connection, r));
}

/* The end of the call that had its turn last. */
static void end_last(struct flight *f, uint32_t i)
{
    struct msg_job job = job_of(f);
    struct lane_result r;
    enum wsd_job_state state;
    int exit;

    lane_client_result(ring_of(f->direct), f->slot, &r);
    if (lane_end(&r, &state, &exit)) {
        job.state = state;
        job.exit = (uint32_t)exit;
        job.run_usec = r.run_usec;
        job.cpu_usec = r.cpu_usec;
        job.error = (struct span){r.error, strlen(r.error)};
        job.status = (struct span){r.status, strlen(r.status)};
        end_call(f, i, &job, r.output, r.output_size);
    } else if (r.outcome == LANE_OVERFLOW) {
        call_fail(f->calls[i], call_say_too_large(f->direct->client));
    } else {
        send_call(f, i, r.outcome == LANE_AGAIN);
    }
}

static void end_earlier(struct flight *f, uint32_t i)
{
    struct msg_job job = job_of(f);
    struct lane_end end;
    const void *output;

    lane_client_end(ring_of(f->direct), f->slot, i, &end, &output);
    job.run_usec = end.run_usec;
    job.cpu_usec = end.cpu_usec;
    end_call(f, i, &job, output, end.output_size);
}

/* How long its calls take, from a slot that has ended. */
static void learn(struct flight *f)
{
    struct lane_client *ring = ring_of(f->direct);
    uint32_t last = lane_client_last(ring, f->slot);
    struct lane_result r;
    uint64_t usec = 0;

    for (uint32_t i = 0; i < last; i++) {
        struct lane_end end;
        const void *output;

        lane_client_end(ring, f->slot, i, &end, &output);
        usec += end.run_usec;
    }
    lane_client_result(ring, f->slot, &r);
    cost_learn(&f->function->cost, last + 1, usec + (r.outcome == LANE_ENDED ? r.run_usec : COST_USEC));
    f->taken = MIN(f->taken, last + 1); /* the bundle was closed, or its executor is dead */
    f->ended = true;
}

/* Frees it when all of its ends are told. A slot that may still run is left to that. */
static void settle(struct flight *f)
{
    struct direct *d = f->direct;
    struct lane *l = d->client->lane;

    if (f->busy || (!f->lost && (!f->ended || f->next < f->taken || f->taken < f->n)))
        return;
    if (!f->forgotten && f->pushed && !f->ended) {
        lane_park(l, f->slot);
    } else if (!f->forgotten) {
        lane_client_free_slot(&l->ring, f->slot);
        lane_leave(l);
    }
    flight_free(f);
}

static bool may_tell(const struct direct *d)
{
    return d->client->connection.n_told < d->client->connection.stop_at;
}

/* Tells the ends of its calls, as far as the turn allows. A callback may come here, too: it goes on where this one
 * is. */
static void tell_flight(struct flight *f, bool all)
{
    struct connection *c = &f->direct->client->connection;

    if (!f->ended)
        learn(f);
    f->busy++;
    c->depth++;
    while (f->next < f->taken && (all || may_tell(f->direct))) {
        uint32_t i = f->next++;

        if (f->calls[i] && i + 1 < f->taken)
            end_earlier(f, i);
        else if (f->calls[i])
            end_last(f, i);
    }
    c->depth--;
    f->busy--;
    settle(f);
}

/* From now on no further call of the slot begins. Returns the one that has its turn. */
static uint32_t take_back(struct flight *f)
{
    uint32_t turn = MIN(lane_client_close(ring_of(f->direct), f->slot), f->n - 1);

    f->taken = MIN(f->taken, turn + 1);
    f->direct->more |= f->taken < f->n;
    return turn;
}

/* --- what a call does not know ------------------------------------------------------------------------------------ */

static void unit_done(struct wsd_call *call, int error)
{
    flight_of(call)->calls[call->index] = NULL;
    call->unit = NULL;
}

static void unit_cancel(struct wsd_call *call)
{
    struct flight *f = flight_of(call);
    struct direct *d = f->direct;

    if (f->forgotten || f->ended)
        return;
    direct_push(d->client);
    if (take_back(f) == call->index)
        lane_client_cancel(ring_of(d), f->slot);
}

/* Its output is too small for wsd to wait for credit: no frame is about it. */
static uint32_t unit_tag(struct wsd_call *call)
{
    return 0;
}

static const struct call_unit_ops unit_ops = {.tag = unit_tag, .cancel = unit_cancel, .done = unit_done};

/* --- slots ------------------------------------------------------------------------------------------------------- */

/* A slot with nothing in it. NULL: there is no room for one. */
static struct flight *flight_new(struct direct *d, struct function *function, uint64_t timeout_usec)
{
    struct lane *l = d->client->lane;

    if (!lane_has_room(l)) {
        lane_is_dry(d->client, l);
        return NULL;
    }
    if (list_empty(&d->flights)) {
        list_push_back(&d->client->connection.open, &d->request.open);
        d->waits_usec = clock_monotonic_usec() + WAITS_USEC / 10;
    }
    uint32_t slot = lane_client_begin(&l->ring);
    struct flight *f = &d->at[slot];
    *f = (struct flight){
        .unit.ops = &unit_ops, .direct = d, .function = function, .timeout_usec = timeout_usec, .slot = slot};
    list_push_back(&d->flights, &f->link);
    d->n_flights++;
    d->filling = f;
    l->depth++;
    l->dry = 0;
    return f;
}

/* The slot that it goes into, with its bytes there. NULL: it has to go by the socket. */
static struct flight *place_call(struct direct *d, struct function *function, uint64_t timeout_usec,
                                 const struct lane_call *call)
{
    struct lane_client *ring = ring_of(d);
    struct flight *f = d->filling;

    if (f && f->function == function && f->timeout_usec == timeout_usec &&
        f->n < cost_together(&function->cost, LANE_ITEMS) && lane_client_add(ring, f->slot, call))
        return f;
    push_filled(d);
    f = flight_new(d, function, timeout_usec);
    if (!f || lane_client_add(ring, f->slot, call))
        return f;
    lane_client_free_slot(ring, f->slot);
    lane_leave(d->client->lane);
    flight_free(f);
    return NULL;
}

static void flight_add(struct flight *f, struct wsd_call *call)
{
    call->unit = &f->unit;
    call->index = f->n;
    f->calls[f->n++] = call;
    f->taken = f->n;
}

/* In another slot, where there is room. */
static bool place_again(struct flight *from, struct wsd_call *call)
{
    struct direct *d = from->direct;
    struct lane *l = d->client->lane;
    const char *args[AGAIN_ARGS], *at = call->args;

    if (call->cancelled || call->argc > AGAIN_ARGS || l->progress != LANE_THERE ||
        !lane_client_allowed(&l->ring, from->function->number))
        return false;
    for (uint32_t i = 0; i < call->argc; i++, at += strlen(at) + 1)
        args[i] = at;
    const struct lane_call again = {.args = args,
                                    .n_args = call->argc,
                                    .input = call->input,
                                    .input_size = call->input_size,
                                    .room = call->output_max};
    struct flight *f = place_call(d, from->function, from->timeout_usec, &again);
    if (!f)
        return false;
    flight_add(f, call);
    return true;
}

/* Those that were taken back. Their slot may run on. */
static void send_taken(struct flight *f)
{
    struct connection *c = &f->direct->client->connection;

    f->busy++;
    c->depth++;
    for (uint32_t i = f->taken; i < f->n; i++) {
        struct wsd_call *call = f->calls[i];

        if (call && place_again(f, call))
            f->calls[i] = NULL;
        else if (call)
            send_call(f, i, false);
    }
    f->n = f->taken;
    c->depth--;
    f->busy--;
    settle(f);
}

static bool is_held(const struct flight *f)
{
    return f->pushed_usec && !f->ended && !f->late && !f->lost;
}

/* When the next slot is late; UINT64_MAX: none will be. */
static uint64_t held_until(const struct direct *d)
{
    if (d->relies)
        list_for_each_entry (struct flight, f, &d->flights, link)
            if (is_held(f))
                return f->pushed_usec + HELD_USEC;
    return UINT64_MAX;
}

/* What was taken for brief takes long: other workers may come, and what is behind it goes into another slot. */
static void let_go(struct direct *d, uint64_t now)
{
    list_for_each_entry (struct flight, f, &d->flights, link)
        if (is_held(f) && now >= f->pushed_usec + HELD_USEC) {
            take_back(f);
            f->late = true;
            f->function->cost.shown = 0;
        }
    lane_client_press(ring_of(d));
}

/* --- the end of the connection ------------------------------------------------------------------------------------ */

static void lose_call(struct direct *d, struct wsd_call *call)
{
    if (d->client->connection.broken)
        call_lost(d->client, call);
    else if (!call_again(call, true))
        call_fail(call, failure_set(&d->client->failure, -ECONNRESET, CODE_INTERRUPTED,
                                    "the job was in a direct lane of the process before: it may have run"));
}

/* What of it has ended counts all the same. */
static void lose_flight(struct flight *f)
{
    struct direct *d = f->direct;

    d->n_lost += !f->lost;
    f->lost = true;
    if (d->filling == f)
        d->filling = NULL;
    f->busy++;
    if (!f->forgotten && f->pushed && lane_client_ended(ring_of(d), f->slot))
        tell_flight(f, true);
    for (uint32_t i = 0; i < f->n; i++)
        if (f->calls[i])
            lose_call(d, f->calls[i]);
    f->busy--;
    settle(f); /* or where its callbacks return */
}

static bool has_calls(const struct flight *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->calls[i])
            return true;
    return false;
}

/* A callback of one that is being lost may free the handle: then the others of its slot are told from there. */
static struct flight *one_to_lose(struct direct *d)
{
    list_for_each_entry (struct flight, f, &d->flights, link)
        if (!f->lost || has_calls(f))
            return f;
    return NULL;
}

static void lose_all(struct direct *d)
{
    d->n_pushed = 0;
    for (struct flight *f; (f = one_to_lose(d));)
        lose_flight(f);
}

static void direct_broken(struct connection *c, struct request *request)
{
    lose_all(container_of(request, struct direct, request));
    request_close(c, request); /* here: a callback may not return */
}

static const struct request_ops direct_ops = {.broken = direct_broken};

void direct_forget(struct wsd_client *client)
{
    struct direct *d = client->direct;

    if (!d || list_empty(&d->flights))
        return;
    d->more = true;
    d->n_pushed = d->n_owed = 0;
    d->wants = false;
    list_for_each_entry (struct flight, f, &d->flights, link)
        f->forgotten = true;
}

/* --- callbacks that did not return ------------------------------------------------------------------------------- */

void direct_tear(struct wsd_client *client)
{
    if (!client->direct)
        return;
    client->direct->more = !list_empty(&client->direct->flights);
    list_for_each_entry (struct flight, f, &client->direct->flights, link)
        f->busy = 0;
}

static struct flight *half_lost(struct direct *d)
{
    list_for_each_entry (struct flight, f, &d->flights, link)
        if (f->lost && !f->busy)
            return f;
    return NULL;
}

void direct_mend(struct wsd_client *client)
{
    struct direct *d = client->direct;

    if (!d)
        return;
    for (struct flight *f; (f = half_lost(d));)
        lose_flight(f);
    list_for_each_entry_safe (struct flight, f, after, &d->flights, link)
        settle(f);
}

/* --- in an event loop --------------------------------------------------------------------------------------------- */

static bool has_ended(const struct direct *d, const struct flight *f)
{
    return f->pushed && f->next < f->taken && (f->ended || lane_client_ended(ring_of(d), f->slot));
}

/* One with something to be told or sent. NULL: there is none. */
static struct flight *next_flight(struct direct *d)
{
    list_for_each_entry (struct flight, f, &d->flights, link)
        if (!f->lost && (f->taken < f->n || has_ended(d, f)))
            return f;
    return NULL;
}

/* As far as the turn allows. Returns whether there was anything. */
static bool collect(struct direct *d)
{
    bool any = false;

    for (struct flight *f; may_tell(d) && (f = next_flight(d)); any = true)
        if (f->taken < f->n)
            send_taken(f);
        else
            tell_flight(f, false);
    return any;
}

/* Reads the notices. idle: nothing else has woken the program, so there may be one that was not asked for, or the end
 * of the executor, which wsd tells of. */
static void read_notices(struct direct *d, bool idle)
{
    struct connection *c = &d->client->connection;
    char bytes[64];

    if (d->wants && lane_client_take_notice(ring_of(d)))
        d->n_owed++;
    d->wants = false;
    if (c->notice_fd < 0 || (!d->n_owed && !idle))
        return;
    ssize_t n = recv(c->notice_fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0)
        d->n_owed -= MIN(d->n_owed, (uint32_t)n);
    else if (n == 0)
        connection_set_notice(c, -1);
}

static void tell_wait(struct direct *d, uint64_t now)
{
    struct request *lane = &d->client->lane->request;

    if (now < d->waits_usec)
        return;
    d->waits_usec = now + WAITS_USEC;
    if (lane->listed)
        connection_send(&d->client->connection, &(struct msg){.type = FRAME_LANE_WAITS}, lane->tag, NULL, 0);
}

uint64_t direct_due(const struct wsd_client *client)
{
    const struct direct *d = client->direct;

    return !d || list_empty(&d->flights) ? UINT64_MAX : MIN(held_until(d), d->waits_usec);
}

bool direct_has_more(const struct wsd_client *client)
{
    const struct direct *d = client->direct;

    return d && !list_empty(&d->flights) && (d->filling || d->n_pushed || d->more);
}

/* No call is under way. */
static void look_at_none(struct direct *d, bool idle)
{
    const struct lane *l = d->client->lane;

    if (!l || !l->mapped) { /* so are the notices of the one before */
        d->n_owed = 0;
        d->wants = false;
    } else if (idle) {
        read_notices(d, true);
    }
}

bool direct_look(struct wsd_client *client)
{
    struct direct *d = client->direct;
    struct connection *c = &client->connection;

    if (!d)
        return false;
    bool idle = c->n_frames == d->n_frames;
    d->n_frames = c->n_frames;
    if (is_forgotten(d) && one_to_lose(d)) {
        lose_all(d);
        return true;
    }
    if (d->n_flights == d->n_lost) {
        look_at_none(d, idle);
        return false;
    }
    direct_push(client);
    d->more = false;
    if (collect(d)) {
        d->more = !list_empty(&d->flights);
        return true;
    }
    uint64_t now = clock_monotonic_usec();
    if (now >= held_until(d))
        let_go(d, now);
    tell_wait(d, now);
    read_notices(d, idle);
    d->wants = true;
    lane_client_want_notice(ring_of(d));
    d->more = next_flight(d);
    return d->more;
}

/* --- submitting --------------------------------------------------------------------------------------------------- */

static struct direct *direct_of(struct wsd_client *client)
{
    struct direct *d = client->direct;

    if (d)
        return d;
    d = client->direct = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    d->client = client;
    list_init(&d->flights);
    list_init(&d->request.open);
    d->request.ops = &direct_ops;
    return d;
}

/* For its output. */
static size_t room_of(const struct wsd_submit *s)
{
    return s->output_size ? s->output_size : LANE_OUTPUT;
}

/* What a lane can have, if it is not too large. */
static bool fits_lane(const struct wsd_submit *s)
{
    struct wsd_submit plain = *s;

    plain.flags = 0;
    plain.output_size = 0;
    return s->flags == WSD_SUBMIT_DIRECT && !s->priority && plain_fits(&plain);
}

/* The function in the lane. NULL: not now. */
static struct function *find_function(struct wsd_client *client, const struct wsd_submit *s)
{
    struct connection *c = &client->connection;
    struct lane *l = lane_of(client);

    if (!l || c->broken || !(c->features & FEATURE_NOTICE) || !direct_of(client) || is_forgotten(client->direct) ||
        client->direct->n_lost || connection_widen(c) < 0)
        return NULL;
    l->n_calls++;
    struct function *f = lane_function(client, l, s->plugin, s->function ? s->function : "");
    return c->notice_fd >= 0 ? f : NULL;
}

/* By the lane. 1: it cannot go there. Else 0 or an error, said. */
static int submit_direct(struct wsd_call *call, const struct wsd_submit *s)
{
    struct wsd_client *client = call->client;
    struct function *function = s->output_size <= LANE_OUTPUT ? find_function(client, s) : NULL;
    const struct lane_call parts = {
        .args = s->args, .n_args = s->n_args, .input = s->input, .input_size = s->input_size, .room = room_of(s)};
    struct flight *f = function ? place_call(client->direct, function, s->timeout_usec, &parts) : NULL;

    if (!f)
        return 1;
    call->input = s->input;
    call->input_size = s->input_size;
    call->input_ended = true;
    flight_add(f, call);
    call_is_open(call);
    return 0;
}

/* What a lane has no place for is submitted as without the flag, output_size included. */
int direct_submit(struct wsd_call *call, const struct wsd_submit *s)
{
    struct wsd_submit plain = *s;
    bool fits = fits_lane(s);
    int r = fits ? submit_direct(call, s) : 1;

    plain.flags &= ~(uint32_t)WSD_SUBMIT_DIRECT;
    if (fits)
        plain.output_size = 0;
    if (r > 0)
        r = plain_submit(call, &plain);
    if (r == 0 && fits)
        call->output_max = room_of(s);
    return r;
}
