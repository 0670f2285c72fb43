/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c: wsd_call() and wsd_calls(): jobs that are awaited, by a direct lane (ring/lane-ring.h) if there is one, else
 * by the socket.
 * Owns what is under way of one of these calls, on its stack. One thread a handle.
 * Keeps: one answer a call, whichever way it goes. What wsd calls untouched, or idempotent and begun, is submitted
 * again, once and by the socket. Brief calls of one function share a slot, where one worker runs them one after the
 * other. A call that takes longer than usual keeps those after it from other workers for HELD_USEC. What is under way
 * when its deadline passes, or when the program wants its wait to end, is cancelled, and its late answer has no reader.
 * Does not know how a lane comes and goes (lane-binding.c). */
#include "client.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/code.h"
#include "given.h"
#include "lane-binding.h"
#include "submit.h"
#include "text.h"

#define NO_LANE        (WSD_CALL_FILES | WSD_CALL_SOCKET | WSD_CALL_GROW) /* flags of a call that goes by the socket */
#define AHEAD_MAX      256u                                               /* calls under way */
#define SLICE_USEC     100000u /* between looks at the connection while direct calls run */
#define WAITS_SLICES   10u     /* wsd hears of a long wait after the first and then each so many */
#define SLICE_MIN_USEC 50u     /* between looks at the lane while others go by the socket; doubled up to HELD_USEC */
#define HELD_USEC      5000u   /* until those behind a call in its slot are taken back */
#define SHARES         8u      /* into which what there is to do is cut at least: for other workers */

/* A slot of the lane under way, with n calls. */
struct flight {
    struct function *function;
    size_t first;
    uint32_t n, slot;
    bool late;         /* nothing had ended for too long: those behind the one that has its turn were taken back */
    uint64_t due_usec; /* the deadline of its calls */
};

struct part {
    size_t first, end;
};

struct calls {
    struct wsd_client *client;
    struct lane *lane;
    const char *requests; /* their size is that of the first one, and so with results */
    char *results;
    size_t request_size, result_size, n;
    size_t next; /* not begun; before it: */
    /* calls that were taken back, other than those under way: so there are no more of them */
    struct part again[AHEAD_MAX];
    uint32_t n_again;
    struct flight flights[LANE_SLOTS]; /* as they were pushed */
    uint32_t n_flights;
    uint32_t n_pushed;       /* slots for which no worker was woken yet */
    size_t n_direct, n_sent; /* calls under way: by the lane, by the socket */
    size_t ahead, n_ends;    /* as many may be; ends since that was changed */
    struct list sent;
    uint32_t n_slices; /* of waiting */
    bool relies;       /* on what is under way being brief: let_go() is due if not */
    bool moved, spin;
    uint64_t held_usec, look_usec; /* when let_go() and process_connection() are due, where `moved` is not set */
    uint64_t slice_usec;           /* of waiting for the socket, while direct calls run */
    bool timed;                    /* a call has a deadline: now_usec is kept */
    uint64_t begun_usec, now_usec;
    uint64_t due_usec; /* the first deadline of what is under way */
    struct words *words;
    size_t failed; /* the first one that has no result */
    int error, exit;
    uint64_t retry_usec;
    char text[CODEC_TEXT_MAX];
};

/* --- requests and results ----------------------------------------------------------------------------------------- */

/* A request of whatever version; ret is room for it. */
static const struct wsd_call_request *request_of(const struct calls *c, size_t i, struct wsd_call_request *ret)
{
    const char *at = c->requests + i * c->request_size;

    if (c->request_size == sizeof(*ret))
        return (const struct wsd_call_request *)(const void *)at;
    *ret = (struct wsd_call_request){0};
    memcpy(ret, at, MIN(c->request_size, sizeof(*ret)));
    return ret;
}

static void set_result(struct calls *c, size_t i, struct wsd_call_result *from)
{
    from->size = c->result_size;
    memcpy(c->results + i * c->result_size, from, MIN(c->result_size, sizeof(*from)));
}

/* A copy that lives until the next call. */
static const char *keep_words(struct calls *c, const char *text)
{
    if (!*text)
        return "";
    size_t size = strlen(text) + 1;
    struct words *w = malloc(sizeof(*w) + size);

    if (!w)
        return "out of memory";
    memcpy(w->text, text, size);
    w->next = c->words;
    c->words = w;
    return w->text;
}

/* It has no result; the words are the handle's last ones. */
static void set_error(struct calls *c, size_t i, int error)
{
    struct wsd_call_result result = {.exit = wsd_client_exit(c->client),
                                     .error = keep_words(c, wsd_client_error(c->client)),
                                     .status = "",
                                     .code = error};

    set_result(c, i, &result);
    if (c->error && c->failed < i)
        return;
    c->failed = i;
    c->error = error;
    c->exit = wsd_client_exit(c->client);
    c->retry_usec = wsd_client_retry_usec(c->client);
    snprintf(c->text, sizeof(c->text), "%s", wsd_client_error(c->client));
}

static void set_too_large(struct calls *c, size_t i)
{
    set_error(c, i, call_say_too_large(c->client));
}

static uint64_t due_in(struct calls *c, uint64_t usec)
{
    if (!c->begun_usec)
        c->begun_usec = clock_monotonic_usec();
    if (!c->timed)
        c->now_usec = c->n > 1 ? clock_monotonic_usec() : c->begun_usec;
    c->timed = true;
    return usec > UINT64_MAX - c->begun_usec ? UINT64_MAX : c->begun_usec + usec;
}

/* Its deadline: the handle's, where it has none. UINT64_MAX: never. */
static inline uint64_t due_of(struct calls *c, const struct wsd_call_request *q)
{
    uint64_t usec = q->deadline_usec ? q->deadline_usec : c->client->connection.waiting.deadline_usec;

    return usec ? due_in(c, usec) : UINT64_MAX;
}

/* It is waited for no longer, because of error. */
static void set_given_up(struct calls *c, size_t i, int error, bool begun)
{
    failure_set(&c->client->failure, error, begun ? CODE_INTERRUPTED : exit_of_error(error), "%s: the job %s",
                error == -EINTR ? "the program has ended the wait" : "the deadline has passed",
                begun ? "is told to stop, and may have run" : "has not begun");
    set_error(c, i, error);
}

/* With what has ended since, one more may be under way. */
static void count_ends(struct calls *c, size_t n)
{
    c->moved = true;
    c->n_ends += n;
    if (c->n_ends >= c->ahead && c->ahead < AHEAD_MAX) {
        c->ahead++;
        c->n_ends = 0;
    }
}

/* --- by the socket ------------------------------------------------------------------------------------------------ */

struct sent {
    struct list link;
    struct calls *calls;
    struct wsd_call *call;
    size_t index, size;
    bool grows; /* WSD_CALL_GROW: the library gathers the output */
    bool over;  /* the output is larger than its room */
    uint64_t due_usec;
};

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct sent *s = userdata;
    struct wsd_call_request room;
    const struct wsd_call_request *q = request_of(s->calls, s->index, &room);

    if (s->over || size > q->output_room - s->size) {
        if (!s->over)
            wsd_call_cancel(call);
        s->over = true;
        return 0;
    }
    memcpy((char *)q->output + s->size, data, size);
    s->size += size;
    return 0;
}

static void sent_free(struct sent *s)
{
    list_remove(&s->link);
    s->calls->n_sent--;
    wsd_call_free(s->call);
    free(s);
}

/* What the library has gathered. NULL also where there is none. -ENOMEM is said. */
static int take_grown(struct sent *s, void **ret_output)
{
    *ret_output = wsd_call_take_output(s->call, &s->size);
    return *ret_output || !s->size ? 0 : failure_set(&s->calls->client->failure, -ENOMEM, CODE_IO, "out of memory");
}

static void set_sent(struct sent *s, int error, const struct wsd_job_info *info)
{
    struct calls *c = s->calls;
    void *output = NULL;

    if (!error && s->grows)
        error = take_grown(s, &output);
    if (error) {
        set_error(c, s->index, error);
    } else if (s->over) {
        set_too_large(c, s->index);
    } else {
        struct wsd_call_result result = {.state = info->state,
                                         .exit = info->exit,
                                         .output = output,
                                         .output_size = s->size,
                                         .error = keep_words(c, info->error),
                                         .status = keep_words(c, info->status),
                                         .run_usec = info->run_usec,
                                         .cpu_usec = info->cpu_usec};

        set_result(c, s->index, &result);
    }
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct sent *s = userdata;
    struct calls *c = s->calls;
    size_t others = c->n_direct + c->n_sent - 1;

    s->call = call;
    if (error == -EAGAIN && others) { /* room is found out by refusals, as in wsd_map(): less is under way after one */
        c->again[c->n_again++] = (struct part){s->index, s->index + 1};
        c->ahead = others;
        c->n_ends = 0;
        c->moved = true;
    } else {
        set_sent(s, error, info);
        count_ends(c, 1);
    }
    sent_free(s);
}

static void send_call(struct calls *c, size_t i)
{
    struct wsd_call_request room;
    const struct wsd_call_request *q = request_of(c, i, &room);
    struct wsd_submit submit = {.size = sizeof(submit),
                                .plugin = q->plugin,
                                .function = q->function,
                                .args = q->args,
                                .n_args = q->n_args,
                                .input = q->input,
                                .input_size = q->input_size,
                                .timeout_usec = q->timeout_usec};
    struct sent *s = malloc(sizeof(*s));
    bool grows = q->flags & WSD_CALL_GROW;
    const struct wsd_callbacks callbacks = {
        .size = sizeof(callbacks), .output = grows ? NULL : on_output, .done = on_done, .userdata = s};

    if (!s) {
        set_error(c, i, failure_set(&c->client->failure, -ENOMEM, CODE_IO, "out of memory"));
        return;
    }
    *s = (struct sent){.calls = c, .index = i, .grows = grows, .due_usec = due_of(c, q)};
    c->due_usec = MIN(c->due_usec, s->due_usec);
    list_push_back(&c->sent, &s->link);
    c->n_sent++;
    struct wsd_call *call;
    int r = submit_prepare(c->client, &submit, &callbacks, &call);
    if (r == 0 && (r = plain_submit(call, &submit)) < 0)
        call_destroy(call);
    if (r < 0) {
        set_error(c, i, r);
        sent_free(s);
        return;
    }
    s->call = call;
}

/* --- by the lane -------------------------------------------------------------------------------------------------- */

/* Of this many that come: how many of them share a slot. */
static uint32_t bundle_most(const struct function *f, size_t n)
{
    return cost_together(&f->cost, (uint32_t)MIN((n + SHARES - 1) / SHARES, (size_t)LANE_ITEMS));
}

static void take_back(struct calls *c, struct flight *f, uint32_t n)
{
    if (n >= f->n)
        return;
    c->again[c->n_again++] = (struct part){.first = f->first + n, .end = f->first + f->n};
    c->n_direct -= f->n - n;
    f->n = n;
}

/* Of the call that had its turn last. Returns how long it ran. */
static uint64_t take_last(struct calls *c, const struct flight *f, size_t i)
{
    struct wsd_call_request room;
    const struct wsd_call_request *q = request_of(c, i, &room);
    struct wsd_call_result result = {.direct = true};
    struct lane_result r;

    lane_client_result(&c->lane->ring, f->slot, &r);
    if (r.outcome == LANE_OVERFLOW) {
        set_too_large(c, i);
        return r.run_usec;
    }
    if (!lane_end(&r, &result.state, &result.exit)) {
        send_call(c, i);
        return COST_USEC;
    }
    result.output_size = MIN(r.output_size, q->output_room);
    if (result.output_size)
        memcpy(q->output, r.output, result.output_size);
    result.run_usec = r.run_usec;
    result.cpu_usec = r.cpu_usec;
    result.error = keep_words(c, r.error);
    result.status = keep_words(c, r.status);
    set_result(c, i, &result);
    return r.run_usec;
}

/* Of those before the call that had its turn last. Returns how long they ran together. */
static uint64_t take_ends(struct calls *c, const struct flight *f, uint32_t last)
{
    struct lane_client *ring = &c->lane->ring;
    uint64_t usec = 0;

    for (uint32_t i = 0; i < last; i++) {
        struct wsd_call_result result = {.direct = true, .state = WSD_JOB_SUCCEEDED, .error = "", .status = ""};
        struct wsd_call_request room;
        const struct wsd_call_request *q = request_of(c, f->first + i, &room);
        struct lane_end end;
        const void *output;

        lane_client_end(ring, f->slot, i, &end, &output);
        result.output_size = MIN((size_t)end.output_size, q->output_room);
        if (result.output_size)
            memcpy(q->output, output, result.output_size);
        result.run_usec = end.run_usec;
        result.cpu_usec = end.cpu_usec;
        usec += result.run_usec;
        set_result(c, f->first + i, &result);
    }
    return usec;
}

/* Its slot has ended. */
static void take_flight(struct calls *c, struct flight *f)
{
    uint32_t last = MIN(lane_client_last(&c->lane->ring, f->slot), f->n - 1);

    take_back(c, f, last + 1);
    uint64_t usec = last ? take_ends(c, f, last) : 0;
    usec += take_last(c, f, f->first + last);
    cost_learn(&f->function->cost, last + 1, usec);
}

static void flight_remove(struct calls *c, uint32_t i)
{
    struct flight *f = &c->flights[i];

    c->n_direct -= f->n;
    memmove(f, f + 1, (--c->n_flights - i) * sizeof(*f));
}

static void flight_free(struct calls *c, uint32_t i)
{
    lane_client_free_slot(&c->lane->ring, c->flights[i].slot);
    lane_leave(c->lane);
    flight_remove(c, i);
}

/* Cancels what of it has not ended, because of error. Its slot is free when it ends. */
static void flight_give_up(struct calls *c, uint32_t i, int error)
{
    struct flight *f = &c->flights[i];
    uint32_t turn = MIN(lane_client_close(&c->lane->ring, f->slot), f->n - 1);
    bool begun = lane_client_cancel(&c->lane->ring, f->slot);

    take_ends(c, f, turn);
    for (uint32_t k = turn; k < f->n; k++)
        set_given_up(c, f->first + k, error, begun && k == turn);
    lane_park(c->lane, f->slot);
    flight_remove(c, i);
}

static void collect(struct calls *c)
{
    for (uint32_t i = 0; i < c->n_flights;)
        if (lane_client_ended(&c->lane->ring, c->flights[i].slot)) {
            take_flight(c, &c->flights[i]);
            count_ends(c, c->flights[i].n);
            flight_free(c, i);
        } else {
            i++;
        }
}

/* Lets other workers, which are all woken, take the calls after one that takes long. */
static void let_go(struct calls *c)
{
    c->relies = false;
    for (uint32_t i = 0; i < c->n_flights; i++) {
        struct flight *f = &c->flights[i];

        if (!f->late)
            take_back(c, f, lane_client_close(&c->lane->ring, f->slot) + 1);
        f->late = true;
        f->function->cost.shown = 0;
    }
    lane_client_press(&c->lane->ring);
}

static bool alike(const struct wsd_call_request *a, const struct wsd_call_request *b)
{
    return a->plugin == b->plugin && a->function == b->function && a->flags == b->flags &&
           a->timeout_usec == b->timeout_usec && a->deadline_usec == b->deadline_usec;
}

/* All that is under way is over before another worker would be awake. Slots of direct.c may not be. */
static bool is_brief(const struct calls *c)
{
    uint64_t usec = 0;

    if (c->lane->depth > c->n_flights)
        return false;

    for (uint32_t i = 0; i < c->n_flights; i++)
        usec += c->flights[i].late ? RING_WORTH_USEC : lane_expected_usec(c->flights[i].function, c->flights[i].n);
    return usec < RING_WORTH_USEC;
}

/* How many went, from the first of this part; 0: it does not fit a lane. */
static uint32_t push_slot(struct calls *c, struct function *function, struct part part)
{
    struct lane_client *ring = &c->lane->ring;
    uint32_t most = bundle_most(function, part.end - part.first), slot = lane_client_begin(ring), n = 0;
    struct wsd_call_request first_room, room;
    const struct wsd_call_request *first = request_of(c, part.first, &first_room);

    for (; n < most && part.first + n < part.end && c->n_direct + c->n_sent + n < c->ahead; n++) {
        const struct wsd_call_request *q = request_of(c, part.first + n, &room);
        struct lane_call call = {.args = q->args,
                                 .n_args = q->n_args,
                                 .input = q->input,
                                 .input_size = q->input_size,
                                 .room = q->output_room};

        if (!alike(first, q) || !lane_client_add(ring, slot, &call))
            break;
    }
    if (n == 0) {
        lane_client_free_slot(ring, slot);
        return 0;
    }
    c->lane->dry = 0;
    c->lane->depth++;
    c->flights[c->n_flights++] =
        (struct flight){.function = function, .first = part.first, .n = n, .slot = slot, .due_usec = due_of(c, first)};
    c->due_usec = MIN(c->due_usec, c->flights[c->n_flights - 1].due_usec);
    c->n_direct += n;
    c->relies |= n > 1;
    lane_client_push(ring, slot, function->number, first->timeout_usec);
    c->n_pushed++;
    return n;
}

/* --- either ------------------------------------------------------------------------------------------------------- */

/* Why it cannot be called; NULL: it can. */
static const char *problem_of(const struct calls *c, const struct wsd_call_request *q)
{
    if (!q->plugin || !q->plugin[0])
        return "no plugin is named";
    if (q->flags & ~(uint32_t)(WSD_CALL_FILES | WSD_CALL_SOCKET | WSD_CALL_GROW))
        return "unknown flags";
    if (!(q->flags & WSD_CALL_GROW))
        return NULL;
    if (q->output || q->output_room)
        return "with WSD_CALL_GROW output and output_room are 0: the result has the output";
    return c->result_size < offsetof(struct wsd_call_result, output) + sizeof(void *)
               ? "with WSD_CALL_GROW the size of struct wsd_call_result has to cover output"
               : NULL;
}

/* One or more, from the first of this part; 0: not before another slot has ended. */
static uint32_t begin_some(struct calls *c, struct part part)
{
    struct wsd_call_request room;
    const struct wsd_call_request *q = request_of(c, part.first, &room);
    struct function *f = NULL;
    uint32_t n = 0;

    const char *problem = problem_of(c, q);
    if (problem) {
        set_error(c, part.first, failure_set(&c->client->failure, -EINVAL, CODE_USAGE, "%s", problem));
        return 1;
    }
    if (due_of(c, q) <= c->now_usec) {
        set_given_up(c, part.first, -ETIMEDOUT, false);
        return 1;
    }
    if (!(q->flags & NO_LANE) && !c->client->connection.broken)
        f = lane_function(c->client, c->lane, q->plugin, q->function ? q->function : "");
    if (f && !lane_has_room(c->lane)) {
        if (c->n_flights && !lane_client_dry(&c->lane->ring) && !lane_client_lost(&c->lane->ring))
            return 0;
        lane_is_dry(c->client, c->lane);
        f = NULL;
    }
    if (f)
        n = push_slot(c, f, part);
    if (n == 0) {
        send_call(c, part.first);
        n = 1;
    }
    c->lane->n_calls += n;
    return n;
}

static void push_parts(struct calls *c)
{
    while (c->n_direct + c->n_sent < c->ahead) {
        struct part *again = c->n_again ? &c->again[c->n_again - 1] : NULL;
        struct part part = again ? *again : (struct part){c->next, c->n};

        if (part.first == part.end)
            return;
        uint32_t n = begin_some(c, part);
        if (n == 0)
            return;
        if (!again)
            c->next += n;
        else if ((again->first += n) == again->end)
            c->n_again--;
    }
}

/* As many as may be under way. */
static void begin_calls(struct calls *c)
{
    push_parts(c);
    if (!c->n_pushed)
        return;
    bool brief = is_brief(c);
    c->spin = lane_client_ring(&c->lane->ring, c->n_pushed, brief);
    c->relies |= brief;
    c->n_pushed = 0;
    c->moved = true;
}

/* 0, or what ended the connection. */
static int process_connection(struct calls *c)
{
    struct msg waits = {.type = FRAME_LANE_WAITS};

    if (c->n_slices++ % WAITS_SLICES == 0 && c->lane->request.listed)
        connection_send(&c->client->connection, &waits, c->lane->request.tag, NULL, 0);
    c->client->connection.depth++;
    int r = connection_process(&c->client->connection);
    c->client->connection.depth--;
    return r;
}

static bool any_ended(void *arg)
{
    struct calls *c = arg;

    for (uint32_t i = 0; i < c->n_flights; i++)
        if (lane_client_ended(&c->lane->ring, c->flights[i].slot))
            return true;
    return false;
}

/* By the lane, or by the socket; where by both, for a short while, which grows as long as nothing ends. */
static int sleep_until(struct calls *c, uint64_t now, uint64_t due)
{
    due = MIN(due, c->due_usec);
    if (!c->n_sent) {
        due = waiting_look(&c->client->connection.waiting, now, due);
        lane_client_sleep(&c->lane->ring, any_ended, c, due - now);
        return 0;
    }
    if (c->n_flights)
        due = MIN(due, now + c->slice_usec);
    c->slice_usec = MIN(2 * c->slice_usec, HELD_USEC);
    int r = connection_step(&c->client->connection, c->n_flights ? due : c->due_usec);
    return r == -ETIMEDOUT ? 0 : r;
}

static void sent_give_up(struct sent *s, int error)
{
    set_given_up(s->calls, s->index, error, true);
    sent_free(s);
}

/* Gives up what is under way and due by then, because of error. What has ended counts all the same. */
static void give_up(struct calls *c, uint64_t by_usec, int error)
{
    collect(c);
    c->moved = true;
    c->due_usec = UINT64_MAX;
    for (uint32_t i = 0; i < c->n_flights;)
        if (c->flights[i].due_usec <= by_usec)
            flight_give_up(c, i, error);
        else
            c->due_usec = MIN(c->due_usec, c->flights[i++].due_usec);
    list_for_each_entry_safe (struct sent, s, after, &c->sent, link)
        if (s->due_usec <= by_usec)
            sent_give_up(s, error);
        else
            c->due_usec = MIN(c->due_usec, s->due_usec);
    connection_send_early(&c->client->connection);
}

/* The program wants its wait to end: all that has not ended is given up, and nothing more is begun. */
static void interrupt(struct calls *c)
{
    give_up(c, UINT64_MAX, -EINTR);
    for (; c->n_again; c->n_again--)
        for (struct part *p = &c->again[c->n_again - 1]; p->first < p->end; p->first++)
            set_given_up(c, p->first, -EINTR, false);
    for (; c->next < c->n; c->next++)
        set_given_up(c, c->next, -EINTR, false);
}

/* Until something has ended, or is due. 0, -EINTR, or what ended the connection. */
static int await(struct calls *c)
{
    if (c->n_flights && (c->spin && !c->n_sent ? lane_client_spin(&c->lane->ring, any_ended, c) : any_ended(c)))
        return 0;
    c->spin = false;
    uint64_t now = c->now_usec = clock_monotonic_usec();
    if (now >= c->due_usec) {
        give_up(c, now, -ETIMEDOUT);
        return 0;
    }
    if (c->moved) {
        c->held_usec = now + HELD_USEC;
        c->slice_usec = SLICE_MIN_USEC;
        c->moved = false;
    }
    if (c->look_usec == 0)
        c->look_usec = now + SLICE_USEC;
    if (c->relies && c->n_flights && now >= c->held_usec) {
        let_go(c);
        return 0;
    }
    if (c->n_flights && now >= c->look_usec) {
        c->look_usec = now + SLICE_USEC;
        return process_connection(c);
    }
    return sleep_until(c, now, c->relies ? MIN(c->held_usec, c->look_usec) : c->look_usec);
}

/* The connection is over: no end of what is under way by the lane would be reported. */
static void lose_all(struct calls *c)
{
    struct wsd_client *client = c->client;

    collect(c);
    if (!client->connection.broken)
        connection_break(&client->connection, -ECONNRESET, CODE_INTERRUPTED, "waiting for wsd failed");
    failure_set(&client->failure, -ECONNRESET,
                client->connection.broken_exit == CODE_NO_DAEMON ? CODE_INTERRUPTED : client->connection.broken_exit,
                "%s", client->connection.reason);
    for (; c->n_flights; flight_free(c, 0))
        for (uint32_t i = 0; i < c->flights[0].n; i++)
            set_error(c, c->flights[0].first + i, -ECONNRESET);
    while (!list_empty(&c->sent)) {
        struct sent *s = container_of(c->sent.next, struct sent, link);

        set_error(c, s->index, -ECONNRESET);
        sent_free(s);
    }
}

static void run_calls(struct calls *c)
{
    int r = 0;

    while (r != -EINTR && !waiting_interrupted(&c->client->connection.waiting)) {
        if (c->timed)
            c->now_usec = clock_monotonic_usec();
        begin_calls(c);
        if (!c->n_direct && !c->n_sent)
            return;
        r = await(c);
        if (r < 0 && r != -EINTR)
            lose_all(c);
        collect(c);
    }
    interrupt(c);
}

/* Where an exception out of a callback has ended it: what is under way is cancelled, and has no reader. */
static void calls_leavep(struct calls *c)
{
    if (!c->client)
        return;
    while (c->n_flights) {
        struct flight *f = &c->flights[0];

        lane_client_close(&c->lane->ring, f->slot);
        lane_client_cancel(&c->lane->ring, f->slot);
        lane_park(c->lane, f->slot);
        flight_remove(c, 0);
    }
    list_for_each_entry_safe (struct sent, s, after, &c->sent, link)
        sent_free(s);
    lane_words_free(c->lane);
    c->lane->words = c->words;
}

int wsd_calls(struct wsd_client *client, const struct wsd_call_request *requests, struct wsd_call_result *results,
              size_t n)
{
    _cleanup_(client_leavep) struct wsd_client *used = client_enter(client);
    _cleanup_(calls_leavep) struct calls c;

    c.client = NULL;
    if (!used)
        return -ECHILD;
    if (client_nests(used) < 0)
        return -EDEADLK;
    struct lane *l = lane_of(client);
    if (!l)
        return failure_set(&client->failure, -ENOMEM, CODE_IO, "out of memory");
    if (n == 0)
        return 0;
    if (results->size == 0)
        return failure_set(&client->failure, -EINVAL, CODE_USAGE, "the size of struct wsd_call_result is not set");
    int r = given_all(&client->failure, "wsd_call_request", requests, n, sizeof(*requests));
    if (r < 0)
        return r;
    c.client = client;
    c.lane = l;
    c.requests = (const char *)requests;
    c.results = (char *)results;
    c.request_size = requests->size;
    c.result_size = results->size;
    c.n = n;
    c.next = c.failed = c.n_direct = c.n_sent = 0;
    c.n_again = c.n_flights = c.n_pushed = c.n_slices = 0;
    c.ahead = AHEAD_MAX;
    c.n_ends = 0;
    c.relies = c.spin = false;
    c.moved = true;
    c.look_usec = 0;
    c.timed = false;
    c.begun_usec = n > 1 ? clock_monotonic_usec() : 0;
    c.now_usec = 0;
    c.due_usec = UINT64_MAX;
    c.words = NULL;
    c.error = 0;
    list_init(&c.sent);
    calls_drop_spare(client); /* output goes to the caller's room */
    run_calls(&c);
    lane_words_free(l);
    l->words = c.words;
    c.client = NULL; /* it is over */
    if (!c.error)
        return 0;
    if (n > 1)
        failure_set(&client->failure, c.error, c.exit, "call %zu: %s", c.failed, c.text);
    else
        failure_set(&client->failure, c.error, c.exit, "%s", c.text);
    client->failure.retry_usec = c.retry_usec;
    return c.error;
}

int wsd_call(struct wsd_client *client, const struct wsd_call_request *request, struct wsd_call_result *ret_result)
{
    return wsd_calls(client, request, ret_result, 1);
}
