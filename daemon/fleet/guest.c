/* SPDX-License-Identifier: Apache-2.0
 *
 * guest.c: jobs of other nodes that this one has.
 * Owns them until their ends are stored, and the client of the local wsd that they run by, where they run as the user of
 * this process (else clients.c).
 * Keeps: a job is acknowledged when its end is stored, not before. While it is held the server hears of it at each third
 * of its patience. A function that may not run twice is marked as begun before it begins, which the server lets one
 * node do. Where another node has done so and did not give the job back, it ends as interrupted. Where no server
 * answers, what is stored is not known: the job waits, and is neither new nor given back. What the server says of how
 * often it handed out a job is a hint: 2.9 says 1 of some that other nodes had. A job of a parcel is like any other,
 * but for what it has in common with its like (parcel.c).
 * Does not know where a job comes from, but for the name that its end is sent to. Does not ask for jobs (in.c). */
#include "fleet/guest.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <wsd/adapters/libevent.h>
#include <wsd/client.h>
#include <wsd/plugin.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "configuration/configuration.h"
#include "fleet/bus.h"
#include "fleet/clients.h"
#include "fleet/mark.h"
#include "fleet/parcel.h"
#include "fleet/parts.h"
#include "fleet/still.h"

#define AGAIN_USEC    500000u /* before the server is asked again, which did not answer */
#define DELIVERED_MAX 10u     /* a job that so many nodes have not ended is dead */

#define REFUSED_USEC 60000000u /* a job that wsd has no room for is kept for so long, before it is given back */
#define LIVE_USEC    250000u   /* between two messages about a job that runs */

enum stage {
    GUEST_QUEUES,  /* for other jobs of its parcel */
    GUEST_LOOKS,   /* whether its end is stored: it came before */
    GUEST_FETCHES, /* its input, which came in parts */
    GUEST_ASKS,    /* whether another node has begun it */
    GUEST_MARKS,   /* that it begins */
    GUEST_OPENS,   /* the client of its user connects */
    GUEST_RUNS,
    GUEST_SENDS,  /* its output, in parts */
    GUEST_TELLS,  /* its end is not stored yet */
    GUEST_CHECKS, /* whether its message is still the one that it is acknowledged by */
    GUEST_WAITS,  /* before it asks the server again */
};

/* A job that this node has. */
struct guest {
    struct list link;
    struct hash_link by_id;
    struct guests *guests;
    struct bus_question question;
    struct client_use use; /* of the client of its user, where that is another one */
    struct parcel_item item;
    struct wsd_call *call; /* NULL: it does not run */
    struct parts parts;    /* of its input, and then of its output */
    struct mark mark;      /* that it has begun, by this node */
    enum stage stage;
    bool idempotent;
    bool came_before;               /* to this node or another one, as far as is known */
    bool unwanted;                  /* it is cancelled: its output is for no one */
    bool is_heard;                  /* the node that it comes from hears what it says while it runs */
    bool has_parts;                 /* its output is in parts that only that node may read */
    bool moved;                     /* its progress was not told */
    uint64_t done, total;           /* progress */
    uint64_t refused_usec;          /* when wsd had no room for it first; 0: it has not been so */
    uint64_t live_usec;             /* when what it says may be told */
    uint32_t n_begun;               /* times that nodes had begun it, of one that its nodes may have died of */
    uint32_t connection;            /* of the bus, by which the receipt came */
    uint32_t attempt, ended_before; /* ended_before: the last try that has a stored end; 0: none has */
    uint64_t due_usec;              /* WAITS: when it goes on, with this */
    void (*again)(struct guest *g);
    char id[LETTER_ID], home[LETTER_NAME], receipt[BUS_SUBJECT], function[CODEC_PLACE_MAX];
    char message_id[STILL_ID];
    struct buffer job;                         /* the letter, until it has begun */
    struct letter_seal seal;                   /* of an input that comes in parts */
    struct buffer input, output, letter, live; /* live: its messages that were not told */
    uint32_t status;                           /* while it tells */
};

/* A job that could not be read, until its end is stored. */
struct refusal {
    struct list link; /* guests->refusals */
    struct bus_question question;
    struct guests *guests;
    char receipt[BUS_SUBJECT];
};

/* What becomes of it: the node, and what was wrong. */
#define UNREAD                                                                                                         \
    "%s could not read it: %.80s. Is its wsd-fleet older, or the message damaged? Submit it again, or update it there"

struct guests {
    struct guests_options options;
    struct wsd_client *client;
    struct wsd_libevent loop;
    struct clients *clients; /* of other users */
    struct parcels *parcels;
    struct codec *codec;
    struct hash by_id;
    struct list all, refusals;
    bool leaving;
    char tag[MARK_TAG]; /* of this process, in what it marks */
    struct in_counters counters;
};

static uint64_t key_of(const char *text)
{
    return hash_text(0, text, strlen(text));
}

/* As much of it as there is room for. */
static void copy_text(char *to, size_t room, const struct span *from)
{
    size_t n = MIN(from->size, room - 1);

    memcpy(to, from->data, n);
    to[n] = 0;
}

/* --- their ends --------------------------------------------------------------------------------------------------- */

static void guest_free(struct guest *g)
{
    struct guests *s = g->guests;

    wsd_call_free(g->call);
    client_leave(&g->use);
    bus_forget(&g->question);
    mark_forget(&g->mark);
    parts_forget(&g->parts);
    list_remove(&g->link);
    hash_remove(&s->by_id, &g->by_id);
    buffer_deinit(&g->job);
    buffer_deinit(&g->input);
    buffer_deinit(&g->output);
    buffer_deinit(&g->letter);
    buffer_deinit(&g->live);
    free(g);
    s->counters.held--;
}

static void leave(struct guest *g, bool given_back)
{
    struct guests *s = g->guests;

    parcel_leave(&g->item, given_back);
    guest_free(g);
    s->options.left(s->options.context);
}

/* Not begun, or may begin again: another node gets it, or this one once more. */
static void give_back(struct guest *g)
{
    char words[LETTER_ANSWER];

    mark_release(&g->mark);
    letter_give_back(g->receipt, words);
    if (!g->item.parcel &&
        g->connection == bus_connection(g->guests->options.bus)) /* else its number may be another's */
        (void)bus_tell(g->guests->options.bus, g->receipt, NULL, words, strlen(words));
    g->guests->counters.given_back++;
    leave(g, true);
}

static void wait_for(struct guest *g, void (*again)(struct guest *g))
{
    g->stage = GUEST_WAITS;
    g->due_usec = clock_monotonic_usec() + AGAIN_USEC;
    g->again = again;
}

/* Likewise, of a job that this node has not marked. A node that leaves gives it back. */
static void wait_to_begin(struct guest *g, void (*again)(struct guest *g))
{
    if (g->guests->leaving)
        give_back(g);
    else
        wait_for(g, again);
}

static uint32_t together(const char *function, void *context)
{
    const struct guests_options *o = &((struct guests *)context)->options;

    return o->together(function, 0, o->context);
}

static void tell_end(struct guest *g)
{
    char subject[LETTER_SUBJECT], id[LETTER_ID + 16], size[12];
    uint32_t n = together(g->function, g->guests);

    g->stage = GUEST_TELLS;
    letter_end_subject(subject, g->home, g->id);
    snprintf(id, sizeof(id), "end-%s-%u", g->id, g->attempt);
    snprintf(size, sizeof(size), "%u", n);
    bus_ask_saying(g->guests->options.bus, &g->question, subject, id, g->has_parts ? HOME_HEADER : PARCEL_HEADER,
                   g->has_parts ? g->home
                   : n > 1      ? size
                                : NULL,
                   buffer_data(&g->letter), buffer_size(&g->letter));
}

static void no_memory(struct guest *g)
{
    log_warning("wsd-fleet: job %s: no memory for its end", g->id);
    give_back(g);
}

/* What it has said while it runs. Where this is lost, nothing else is. */
static void tell_live(struct guest *g)
{
    char subject[LETTER_SUBJECT];

    if (!g->moved && buffer_size(&g->live) == 0)
        return;
    if (g->moved)
        (void)live_put_progress(&g->live, g->attempt, g->done, g->total);
    g->moved = false;
    letter_live_subject(subject, g->home, g->id);
    (void)bus_tell(g->guests->options.bus, subject, NULL, buffer_data(&g->live), buffer_size(&g->live));
    buffer_deinit(&g->live);
    g->live_usec = clock_monotonic_usec() + LIVE_USEC;
}

/* Its output is stored: the seal goes before the end. */
static void output_sent(struct parts *p, int error)
{
    struct guest *g = container_of(p, struct guest, parts);
    struct buffer end = g->letter;

    g->letter = (struct buffer){0};
    g->has_parts = g->is_heard;
    if (error == 0)
        error = letter_put_output_seal(&g->letter, &p->seal);
    if (error == 0 && buffer_put(&g->letter, buffer_data(&end), buffer_size(&end)) < 0)
        error = -ENOMEM;
    buffer_deinit(&end);
    buffer_deinit(&g->output);
    if (error < 0)
        no_memory(g);
    else
        tell_end(g);
}

/* Puts the end into the letter. Returns 1 where the output has to go in parts before it, 0 or -ENOMEM. */
static int write_end(struct guest *g, const struct msg_run_end *e)
{
    int r = letter_put_end(&g->letter, e, buffer_data(&g->output), buffer_size(&g->output));

    if (r != -E2BIG)
        return r;
    buffer_drop(&g->letter, buffer_size(&g->letter));
    r = letter_put_end(&g->letter, e, NULL, 0);
    return r < 0 ? r : 1;
}

/* The job has ended here. */
static void end(struct guest *g, struct msg_run_end e)
{
    char large[128];
    const struct parts_name name = {.bus = g->guests->options.bus,
                                    .home = g->is_heard ? g->home : NULL,
                                    .id = g->id,
                                    .attempt = g->attempt,
                                    .way = "out"};

    buffer_deinit(&g->input);
    tell_live(g);
    if (g->unwanted)
        buffer_deinit(&g->output);
    if (buffer_size(&g->output) > LETTER_OUTPUT_MAX) {
        snprintf(large, sizeof(large), "its output is larger than the fleet carries (%llu MiB): let it write to a file",
                 LETTER_OUTPUT_MAX >> 20);
        buffer_deinit(&g->output);
        e = (struct msg_run_end){.status = WSD_STATUS_MAX, .error = {large, strlen(large)}};
    }
    if (parcel_end(&g->item, &e, buffer_data(&g->output), buffer_size(&g->output))) {
        g->guests->counters.ended++;
        leave(g, false);
        return;
    }
    e.run = g->attempt;
    int r = write_end(g, &e);
    if (r == 1) {
        g->stage = GUEST_SENDS;
        r = parts_send(&g->parts, &name, buffer_data(&g->output), buffer_size(&g->output), output_sent);
    } else if (r == 0) {
        buffer_deinit(&g->output);
        tell_end(g);
    }
    if (r < 0)
        no_memory(g);
}

/* state: as in RUN_END. */
static void end_as(struct guest *g, uint32_t state, const char *what, const char *why)
{
    char words[WSD_TEXT_MAX];
    int n = snprintf(words, sizeof(words), "%s on %s%s%.180s", what, g->guests->options.node, *why ? ": " : "", why);

    end(g, (struct msg_run_end){.status = WSD_STATUS_MAX, .error = {words, (size_t)n}, .state = state});
}

static void end_badly(struct guest *g, const char *what, const char *why)
{
    end_as(g, 0, what, why);
}

static void end_interrupted(struct guest *g, const char *why)
{
    end_as(g, WSD_JOB_INTERRUPTED, "interrupted", why);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct guest *g = userdata;

    if (buffer_size(&g->output) <= LETTER_OUTPUT_MAX && buffer_put(&g->output, data, size) < 0)
        wsd_call_cancel(call);
    return 0;
}

/* A line that there is no room for is lost. */
static void on_message(struct wsd_call *call, int level, const char *text, void *userdata)
{
    struct guest *g = userdata;

    (void)live_put_message(&g->live, g->attempt, (uint32_t)level & 7u, text);
}

static void on_progress(struct wsd_call *call, uint64_t done, uint64_t total, void *userdata)
{
    struct guest *g = userdata;

    g->done = done;
    g->total = total;
    g->moved = true;
}

static void ended_here(struct guest *g, const struct wsd_job_info *info)
{
    static const char *const words[] = {
        [WSD_JOB_TIMED_OUT] = "timed out", [WSD_JOB_CRASHED] = "crashed", [WSD_JOB_INTERRUPTED] = "interrupted"};
    bool failed = info->state == WSD_JOB_FAILED && info->exit >= 1 && info->exit <= WSD_STATUS_MAX;
    const struct guests_options *o = &g->guests->options;

    if (info->state == WSD_JOB_SUCCEEDED || failed)
        (void)o->together(g->function, info->run_usec, o->context);
    if (info->state == WSD_JOB_SUCCEEDED || failed)
        end(g, (struct msg_run_end){.status = failed ? (uint32_t)info->exit : 0,
                                    .error = {info->error, strlen(info->error)},
                                    .text = {info->status, strlen(info->status)}});
    else if (info->state == WSD_JOB_INTERRUPTED && g->idempotent)
        give_back(g);
    else if (info->state >= WSD_JOB_TIMED_OUT && info->state <= WSD_JOB_INTERRUPTED)
        end_as(g, info->state, words[info->state], info->error);
    else
        end_badly(g, info->state == WSD_JOB_CANCELLED ? "cancelled" : "failed", info->error);
}

/* Which it runs by. */
static struct wsd_client *client_of(const struct guest *g)
{
    return g->use.client ? client_handle(&g->use) : g->guests->client;
}

/* It is not needed to begin again. */
static void on_accepted(struct wsd_call *call, const struct wsd_id *id, void *userdata)
{
    struct guest *g = userdata;

    buffer_deinit(&g->job);
}

static void run(struct guest *g);

/* Whether it waits here for room: quota or queue of wsd are full. What is given back counts as handed out, and is dead
 * after some times. */
static bool waits_for_room(struct guest *g)
{
    uint64_t now = clock_monotonic_usec();

    g->refused_usec = g->refused_usec ? g->refused_usec : now;
    if (buffer_size(&g->job) == 0 || g->guests->leaving || now - g->refused_usec >= REFUSED_USEC)
        return false;
    if (g->seal.size == 0)
        buffer_deinit(&g->input); /* it is in the letter */
    wait_for(g, run);
    return true;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct guest *g = userdata;
    bool may_have_run = error == -ECONNRESET && wsd_client_exit(client_of(g)) == 125;

    g->call = NULL;
    if (error == 0)
        ended_here(g, info);
    else if (error == -EINVAL || error == -ENOENT || error == -EACCES)
        end_badly(g, "refused", text);
    else if (may_have_run && !g->idempotent)
        end_interrupted(g, "wsd has ended while it ran, and it may not run twice");
    else if (error != -EAGAIN || !waits_for_room(g))
        give_back(g);
    wsd_call_free(call);
}

/* wsd would refuse another text, and no job fails for being observed. */
static const char *traceparent_of(const struct msg_submit *from)
{
    const struct span *text = &from->traceparent;

    return codec_is_traceparent(text->data, text->size) ? text->data : NULL;
}

/* -EAGAIN and others: it cannot begin now. */
static int submit(struct guest *g, struct letter_job *job)
{
    static const struct wsd_callbacks none = {.size = sizeof(none)};
    struct wsd_callbacks callbacks = none;
    struct wsd_submit s = WSD_INIT(struct wsd_submit);
    const struct msg_submit *from = &job->run.job;
    const char **args = calloc(from->argc + 1u, sizeof(*args));
    char function[CODEC_PLACE_MAX];
    const char *at = from->args.data;

    if (!args)
        return -ENOMEM;
    for (uint32_t n = 0; n < from->argc; n++, at += strlen(at) + 1)
        args[n] = at;
    copy_text(function, sizeof(function), &from->function);
    char *colon = strchr(function, ':');
    s.plugin = function;
    if (colon) {
        *colon = 0;
        s.function = colon + 1;
    }
    function[letter_plugin(function)] = 0;
    s.args = args;
    s.n_args = from->argc;
    if (g->seal.size == 0)
        g->input = job->input;
    s.input = buffer_data(&g->input); /* stays until the call is done */
    s.input_size = buffer_size(&g->input);
    s.timeout_usec = from->timeout_usec;
    s.priority = from->priority;
    s.traceparent = traceparent_of(from);
    callbacks.output = on_output;
    if (buffer_size(&g->job) > 0)
        callbacks.accepted = on_accepted;
    if (g->is_heard) {
        s.flags |= WSD_SUBMIT_PROGRESS;
        callbacks.message = on_message;
        callbacks.progress = on_progress;
    }
    g->live_usec = clock_monotonic_usec() + LIVE_USEC;
    callbacks.done = on_done;
    callbacks.userdata = g;
    int r = wsd_client_submit(client_of(g), &s, &callbacks, &g->call);
    free(args);
    return r;
}

/* Whether the client of the user that it is to run as is there. False: it waits for that, or has ended, or was given
 * back. */
static bool has_client(struct guest *g, const struct msg_run *run)
{
    const char *as = g->guests->options.run_as;
    bool same = as && strcmp(as, CONFIG_RUN_AS_SAME) == 0;

    if (!as || g->use.client)
        return true;
    if (same && run->user.size == 0) {
        end_badly(g, "refused",
                  "[fleet] run-as = same in wsd.conf there, and the job does not name its user: update "
                  "wsd-fleet where it comes from");
        return false;
    }
    int r = clients_take(g->guests->clients, &g->use, same ? run->user.data : as);
    if (r == -EINPROGRESS)
        g->stage = GUEST_OPENS;
    else if (r < 0)
        give_back(g);
    return r == 0;
}

/* Takes the input. The letter is kept only where it has to wait. */
static void run_job(struct guest *g, struct letter_job *job)
{
    if (!has_client(g, &job->run)) {
        buffer_deinit(&job->input);
        return;
    }
    g->stage = GUEST_RUNS;
    int r = submit(g, job);
    if (r == -EINVAL)
        end_badly(g, "refused", wsd_client_error(client_of(g)));
    else if (r < 0)
        give_back(g);
}

static void run(struct guest *g)
{
    struct span rest = {(const char *)buffer_data(&g->job), buffer_size(&g->job)};
    struct letter_job job = {0};
    char why[160];

    if (g->unwanted) {
        end_badly(g, "cancelled", "");
    } else if (letter_get_job(g->guests->codec, rest.data, rest.size, &job, why) < 0) { /* no memory */
        buffer_deinit(&job.input);
        give_back(g);
    } else {
        run_job(g, &job);
    }
}

/* Of the client of its user. */
static void client_told(struct client_use *u, int error, const char *words)
{
    struct guest *g = container_of(u, struct guest, use);

    if (error == 0)
        run(g);
    else if (error == -EACCES)
        end_badly(g, "refused", words);
    else
        give_back(g);
}

/* behind: the number of the mark that stands, which another node may replace meanwhile; 0: there is none. */
static void mark(struct guest *g, uint64_t behind)
{
    g->stage = GUEST_MARKS;
    g->mark.times = g->n_begun + 1;
    if (g->n_begun > 0) /* it may run twice: the mark only counts */
        mark_count(&g->mark, &g->question);
    else
        mark_put(&g->mark, &g->question, behind);
}

static void ask_whether_begun(struct guest *g)
{
    g->stage = GUEST_ASKS;
    mark_look(&g->mark, &g->question);
}

static void look_for_end(struct guest *g)
{
    char subject[LETTER_SUBJECT];

    g->stage = GUEST_LOOKS;
    letter_end_subject(subject, g->home, g->id);
    bus_ask_last(g->guests->options.bus, &g->question, STREAM_RESULTS, subject);
}

/* Its input is here. */
static void go(struct guest *g)
{
    if (g->n_begun > 0)
        mark(g, 0);
    else if (g->idempotent && !g->item.wary)
        run(g);
    else if (g->came_before)
        ask_whether_begun(g);
    else
        mark(g, 0);
}

static void input_came(struct parts *p, int error)
{
    struct guest *g = container_of(p, struct guest, parts);

    if (error == 0)
        go(g);
    else if (error == -ENOENT || error == -EBADMSG)
        end_badly(g, "its input could not be read", p->why);
    else
        give_back(g); /* no memory */
}

static void fetch(struct guest *g)
{
    const struct parts_name name = {.bus = g->guests->options.bus, .id = g->id, .attempt = g->attempt, .way = "in"};

    if (buffer_size(&g->input) == g->seal.size) { /* there are no parts, or they are here already */
        go(g);
        return;
    }
    g->stage = GUEST_FETCHES;
    if (parts_fetch(&g->parts, &name, &g->seal, &g->input, input_came) < 0)
        give_back(g);
}

/* The try of which that is the end; 0: none is stored. */
static uint32_t last_ended(struct guest *g, natsMsg *msg)
{
    struct letter_end end = {0};
    char why[160];
    int r = bus_status(msg)
                ? -ENOENT
                : letter_get_end(g->guests->codec, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), &end, why);

    buffer_deinit(&end.output);
    return r == 0 ? (uint32_t)end.end.run : 0;
}

static void begun_before(struct guest *g, natsMsg *msg)
{
    struct mark_record before;

    mark_read(msg, &before);
    if (before.attempt == g->attempt && strcmp(before.tag, g->guests->tag) == 0) { /* stored; the answer was lost */
        mark_stands(&g->mark, bus_number(msg));
        run(g);
    } else if (before.attempt > g->ended_before && g->idempotent) {
        g->stage = GUEST_QUEUES;
        g->n_begun = before.times;
        parcel_suspect(&g->item, g->n_begun);
    } else if (before.attempt <= g->ended_before) {
        mark(g, bus_number(msg));
    } else {
        g->guests->counters.interrupted++;
        end_interrupted(g, "another node had begun it and did not end it, and it may not run twice");
    }
}

static void may_be_marked(struct guest *g, natsMsg *msg)
{
    if (!msg) {
        ask_whether_begun(g);
    } else if (bus_is_stored(msg)) {
        mark_stands(&g->mark, bus_sequence(msg));
        run(g);
    } else if (bus_is_outdated(msg)) { /* another node has begun it, and may have ended it */
        g->came_before = true;
        look_for_end(g);
    } else { /* no leader, or a full disk */
        wait_to_begin(g, ask_whether_begun);
    }
}

static void check(struct guest *g)
{
    g->stage = GUEST_CHECKS;
    still_ask(g->guests->options.bus, &g->question, g->receipt);
}

static void over(struct guest *g, enum still still)
{
    if (!g->item.parcel && still == STILL_THERE)
        (void)bus_tell(g->guests->options.bus, g->receipt, NULL, "+ACK", 4);
    g->guests->counters.ended++;
    leave(g, false);
}

/* The end is stored. Where this is lost, the job comes again, and its end is found. */
static void acknowledge(struct guest *g)
{
    if (!g->item.parcel && g->connection != bus_connection(g->guests->options.bus))
        check(g);
    else
        over(g, STILL_THERE);
}

static void checked(struct guest *g, enum still still)
{
    if (still == STILL_UNKNOWN)
        wait_for(g, check);
    else
        over(g, still);
}

/* No node has ended it. */
static void give_up(struct guest *g)
{
    char subject[LETTER_SUBJECT];

    snprintf(subject, sizeof(subject), "wsd.dead.%.*s", (int)letter_plugin(g->function), g->function);
    (void)bus_tell(g->guests->options.bus, subject, NULL, buffer_data(&g->job), buffer_size(&g->job));
    g->guests->counters.dead++;
    end_badly(g, "given up", "no node has ended it, of all that had it");
}

static void answered(struct bus_question *q, natsMsg *msg)
{
    struct guest *g = container_of(q, struct guest, question);

    switch (g->stage) {
    case GUEST_LOOKS:
        if (bus_found(msg) == BUS_UNKNOWN)
            wait_to_begin(g, look_for_end);
        else if ((g->ended_before = last_ended(g, msg)) >= g->attempt) /* this try, or one behind it */
            acknowledge(g);
        else if (g->item.parcel && parcel_delivered(g->item.parcel) > DELIVERED_MAX)
            give_up(g);
        else
            fetch(g);
        return;
    case GUEST_ASKS:
        if (bus_found(msg) == BUS_UNKNOWN)
            wait_for(g, ask_whether_begun); /* this one may have marked it */
        else
            begun_before(g, msg);
        return;
    case GUEST_MARKS:
        may_be_marked(g, msg);
        return;
    case GUEST_TELLS:
        if (bus_is_stored(msg))
            acknowledge(g);
        else
            wait_for(g, tell_end);
        return;
    case GUEST_CHECKS:
        checked(g, still_answer(msg, g->message_id));
        return;
    case GUEST_QUEUES:
    case GUEST_FETCHES:
    case GUEST_OPENS:
    case GUEST_RUNS:
    case GUEST_SENDS:
    case GUEST_WAITS:
        return;
    }
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

/* The node that says that it has sent the message. False: none says so. */
static bool get_home(natsMsg *msg, char ret[static LETTER_NAME])
{
    const char *home = bus_text(msg, HOME_HEADER);
    bool good = letter_is_name(home, strlen(home), LETTER_NAME);

    if (good)
        snprintf(ret, LETTER_NAME, "%s", home);
    return good;
}

static void refusal_free(struct refusal *f)
{
    bus_forget(&f->question);
    list_remove(&f->link);
    free(f);
}

/* Its end is stored, or it comes again. */
static void refused(struct bus_question *q, natsMsg *msg)
{
    struct refusal *f = container_of(q, struct refusal, question);
    const struct guests_options *o = &f->guests->options;

    if (bus_is_stored(msg))
        (void)bus_tell(o->bus, f->receipt, NULL, "+TERM", 5);
    refusal_free(f);
    o->left(o->context);
}

/* It ends, where it comes from. False: that is not known. */
static bool end_unread(struct guests *s, natsMsg *msg, const char *why)
{
    char home[LETTER_NAME], id[LETTER_ID], words[WSD_TEXT_MAX], subject[LETTER_SUBJECT], end_id[LETTER_ID + 16];
    uint32_t attempt;
    struct buffer letter = {0};

    if (!get_home(msg, home) || !letter_get_sent(bus_text(msg, "Nats-Msg-Id"), id, &attempt))
        return false;
    struct refusal *f = calloc(1, sizeof(*f));
    int n = snprintf(words, sizeof(words), UNREAD, s->options.node, why);
    const struct msg_run_end e = {.run = attempt, .status = WSD_STATUS_MAX, .error = {words, (size_t)n}};
    if (!f || letter_put_end(&letter, &e, NULL, 0) < 0) {
        buffer_deinit(&letter);
        free(f);
        return true; /* it comes again */
    }
    *f = (struct refusal){.guests = s, .question.answered = refused};
    list_init(&f->link);
    list_push_back(&s->refusals, &f->link);
    snprintf(f->receipt, sizeof(f->receipt), "%s", natsMsg_GetReply(msg));
    letter_end_subject(subject, home, id);
    snprintf(end_id, sizeof(end_id), "end-%s-%u", id, attempt);
    bus_ask(s->options.bus, &f->question, subject, end_id, buffer_data(&letter), buffer_size(&letter));
    buffer_deinit(&letter);
    return true;
}

static void refuse(struct guests *s, natsMsg *msg, const char *why)
{
    log_warning("wsd-fleet: a message of %s is no job: %s", natsMsg_GetSubject(msg), why);
    if (!end_unread(s, msg, why))
        (void)bus_tell(s->options.bus, natsMsg_GetReply(msg), NULL, "+TERM", 5);
}

static struct guest *guest_find(struct guests *s, const char *id)
{
    if (s->by_id.n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(&s->by_id, key_of(id)); l; l = hash_next(l)) {
        struct guest *g = container_of(l, struct guest, by_id);

        if (strcmp(g->id, id) == 0)
            return g;
    }
    return NULL;
}

/* It has to be for the plugin that its subject says: that is what a node asks for, and what a sender may be let send.
 * Returns 0, or -EBADMSG with words. */
static int check_plugin(const struct letter_receipt *receipt, const struct letter_job *job, char why[static 160])
{
    const char *plugin = strchr(receipt->consumer, '_');
    char name[CODEC_PLACE_MAX], subject[LETTER_SUBJECT];

    snprintf(name, sizeof(name), "%.*s", (int)job->run.job.function.size, job->run.job.function.data);
    if (plugin && letter_job_subject(subject, name, 0) && strcmp(strrchr(subject, '.') + 1, plugin + 1) == 0)
        return 0;
    snprintf(why, 160, "it is for another plugin than its subject says");
    return -EBADMSG;
}

static void keep_receipt(struct guest *g, natsMsg *msg)
{
    snprintf(g->receipt, sizeof(g->receipt), "%s", natsMsg_GetReply(msg));
    snprintf(g->message_id, sizeof(g->message_id), "%s", bus_text(msg, "Nats-Msg-Id"));
    g->connection = bus_connection(g->guests->options.bus);
}

/* The server took this node for dead, which has the job still. */
static bool has_it(struct guests *s, natsMsg *msg, const struct letter_job *job)
{
    char id[LETTER_ID];

    letter_id_text(job->run.id, id);
    struct guest *g = guest_find(s, id);
    bool same = g && g->attempt == job->run.attempt;
    if (same)
        keep_receipt(g, msg);
    return same;
}

/* A guest of this job. NULL: no memory. */
static struct guest *guest_new(struct guests *s, const struct letter_job *job)
{
    struct guest *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->guests = s;
    g->question.answered = answered;
    g->use.told = client_told;
    copy_text(g->function, sizeof(g->function), &job->run.job.function);
    copy_text(g->home, sizeof(g->home), &job->run.directory);
    g->idempotent = s->options.may_run_twice(g->function, s->options.context);
    g->attempt = job->run.attempt;
    g->seal = job->seal;
    list_init(&g->link);
    letter_id_text(job->run.id, g->id);
    mark_init(&g->mark, s->options.bus, g->id, s->tag, g->attempt);
    if (hash_insert(&s->by_id, &g->by_id, key_of(g->id)) < 0) {
        free(g);
        return NULL;
    }
    list_push_back(&s->all, &g->link);
    s->counters.held++;
    s->counters.held_most = MAX(s->counters.held_most, s->counters.held);
    s->counters.taken++;
    return g;
}

static void begin(struct guest *g, const struct letter_receipt *receipt)
{
    g->came_before = receipt->delivered > 1 || g->attempt > 1;
    if (receipt->delivered > 1)
        g->guests->counters.redelivered++;
    if (receipt->delivered > DELIVERED_MAX)
        give_up(g);
    else if (g->came_before)
        look_for_end(g);
    else
        fetch(g);
}

static void take_letter(struct guests *s, natsMsg *msg, const struct letter_receipt *receipt)
{
    struct letter_job job = {0};
    char why[160];
    int r = letter_get_job(s->codec, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), &job, why);
    if (r == 0)
        r = check_plugin(receipt, &job, why);
    struct guest *g = r == 0 && !has_it(s, msg, &job) ? guest_new(s, &job) : NULL;

    buffer_deinit(&job.input);
    if (r == -EBADMSG)
        refuse(s, msg, why);
    if (!g)
        return; /* it is here already; or without memory it comes again */
    keep_receipt(g, msg);
    g->is_heard = *bus_text(msg, HOME_HEADER);
    if (buffer_put(&g->job, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)) < 0 ||
        s->leaving) /* it was asked for before */
        give_back(g);
    else
        begin(g, receipt);
}

/* Begins it at once, where nothing has to be looked up. Its parcel is new. */
static void begin_item(struct guest *g, struct letter_job *job)
{
    g->came_before = g->attempt > 1;
    if (g->idempotent && !g->came_before) {
        run_job(g, job);
        return;
    }
    buffer_deinit(&job->input);
    g->item.alone = true; /* a later try of it is to find its end */
    if (g->came_before)
        look_for_end(g);
    else
        fetch(g);
}

/* Of a parcel that came before. */
static void begin_again(struct parcel_item *item, void *context)
{
    struct guest *g = container_of(item, struct guest, item);

    look_for_end(g);
}

static void ended_before(struct parcel_item *item, void *context)
{
    acknowledge(container_of(item, struct guest, item));
}

static void parcel_over(void *context)
{
    const struct guests_options *o = &((struct guests *)context)->options;

    o->left(o->context);
}

static void item_back(struct parcel_item *item, void *context)
{
    give_back(container_of(item, struct guest, item));
}

/* The next job of a parcel. The job's letter is `whole`. Returns 0, -ENOMEM, or -EBADMSG with words. */
static int take_item(struct guests *s, struct parcel *p, bool is_heard, struct letter_job *job, struct span whole,
                     char why[static 160])
{
    struct guest *g = job->run.run == parcel_size(p) + 1 ? guest_new(s, job) : NULL;
    bool new = parcel_is_new(p);

    if (!g) {
        snprintf(why, 160, "a job in another place than it says");
        return job->run.run == parcel_size(p) + 1 ? -ENOMEM : -EBADMSG;
    }
    if (!parcel_add(p, &g->item, g->home, g->function)) {
        guest_free(g);
        snprintf(why, 160, "more than %u jobs", PARCEL_JOBS);
        return -EBADMSG;
    }
    g->is_heard = is_heard;
    if (!(new && g->idempotent && !s->options.run_as) && buffer_put(&g->job, whole.data, whole.size) < 0) {
        give_back(g);
        return 0;
    }
    if (new) {
        begin_item(g, job);
        job->input = (struct buffer){0};
    } else {
        g->came_before = true;
        s->counters.redelivered++;
        g->stage = GUEST_QUEUES;
    }
    return 0;
}

static void take_parcel(struct guests *s, natsMsg *msg, const struct letter_receipt *receipt, const char *id)
{
    const char *reply = natsMsg_GetReply(msg);
    struct span rest = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    struct parcel *p =
        parcels_have(s->parcels, id, reply) ? NULL : parcel_new(s->parcels, id, reply, receipt->delivered);
    char why[160], home[LETTER_NAME], words[WSD_TEXT_MAX];
    bool is_heard = get_home(msg, home);
    int r = s->leaving ? -ESHUTDOWN : 0;

    if (!p)
        return; /* it is here already; or without memory it comes again */
    s->counters.parcels++;
    while (r == 0 && rest.size > 0) {
        struct span whole = {rest.data, 0};
        struct letter_job job = {0};

        r = parcel_get_job(s->codec, &rest, &job, why);
        whole.size = (size_t)(rest.data - whole.data);
        r = r < 0 ? r : check_plugin(receipt, &job, why);
        r = r < 0 ? r : take_item(s, p, is_heard, &job, whole, why);
        buffer_deinit(&job.input);
    }
    if (r == -EBADMSG) {
        log_warning("wsd-fleet: a message of %s is no parcel: %s", natsMsg_GetSubject(msg), why);
        snprintf(words, sizeof(words), UNREAD, s->options.node, why);
        if (is_heard)
            parcel_end_rest(p, home, words);
    }
    parcel_filled(p, r);
}

void guests_take(struct guests *s, natsMsg *msg, const struct letter_receipt *receipt)
{
    char id[LETTER_ID];

    if (letter_get_parcel_id(natsMsg_GetSubject(msg), id))
        take_parcel(s, msg, receipt, id);
    else
        take_letter(s, msg, receipt);
}

/* It has ended for the node that it comes from. */
static void stop(struct guest *g)
{
    g->unwanted = true;
    if (g->call) {
        wsd_call_cancel(g->call);
    } else if (g->stage == GUEST_FETCHES) {
        parts_forget(&g->parts);
        end_badly(g, "cancelled", "");
    } else if (g->stage == GUEST_SENDS) {
        parts_forget(&g->parts);
        tell_end(g); /* without its output */
    }
}

static void on_cancel(natsMsg *msg, void *context)
{
    const char *id = strrchr(natsMsg_GetSubject(msg), '.');
    struct guest *g = id ? guest_find(context, id + 1) : NULL;

    if (g)
        stop(g);
    natsMsg_Destroy(msg);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void guests_tick(struct guests *s, uint64_t now_usec, bool is_time)
{
    uint64_t boot_usec = clock_boottime_usec();

    clients_tick(s->clients, now_usec);
    list_for_each_entry_safe (struct guest, g, after_g, &s->all, link) {
        if (is_time && !g->item.parcel)
            (void)bus_tell(s->options.bus, g->receipt, NULL, "+WPI", 4);
        parts_tick(&g->parts, now_usec);
        mark_tick(&g->mark, boot_usec);
        if (now_usec >= g->live_usec)
            tell_live(g);
        if (g->stage == GUEST_WAITS && now_usec >= g->due_usec)
            g->again(g);
    }
    parcels_tick(s->parcels, now_usec, is_time);
}

void guests_leave(struct guests *s)
{
    s->leaving = true;
    parcels_leave(s->parcels);
}

bool guests_are_here(const struct guests *s)
{
    return !list_empty(&s->all) || !list_empty(&s->refusals) || parcels_are_here(s->parcels);
}

struct in_counters guests_count(const struct guests *s)
{
    return s->counters;
}

static void on_state(int error, void *userdata)
{
    struct guests *s = userdata;

    s->options.connected(error == 0, s->options.context);
}

static int connect_client(struct guests *s)
{
    const struct wsd_open how = {.size = sizeof(how),
                                 .socket = s->options.socket,
                                 .flags = WSD_OPEN_AGAIN,
                                 .state = on_state,
                                 .state_userdata = s};
    int r = wsd_client_open_with(&s->client, &how);

    return r < 0 ? r : wsd_libevent_attach(&s->loop, s->options.base, s->client);
}

int guests_new(struct guests **ret_guests, const struct guests_options *options)
{
    struct guests *s = calloc(1, sizeof(*s));
    uint64_t number;

    if (!s)
        return -ENOMEM;
    s->options = *options;
    list_init(&s->all);
    list_init(&s->refusals);
    int r = getrandom(&number, sizeof(number), 0) < 0 ? -errno : codec_new(&s->codec);
    snprintf(s->tag, sizeof(s->tag), "%016" PRIx64, r == 0 ? number : 0);
    if (r == 0)
        r = clients_new(&s->clients, options->base, options->socket);
    const struct parcels_options parcels = {.bus = options->bus,
                                            .tag = s->tag,
                                            .begin = begin_again,
                                            .ended = ended_before,
                                            .back = item_back,
                                            .over = parcel_over,
                                            .together = together,
                                            .context = s};
    if (r == 0)
        r = parcels_new(&s->parcels, &parcels);
    if (r == 0)
        r = connect_client(s);
    if (r == 0)
        r = bus_subscribe(options->bus, "wsd.cancel.*", on_cancel, s);
    if (r < 0) {
        guests_free(s);
        return r;
    }
    *ret_guests = s;
    return 0;
}

struct guests *guests_free(struct guests *s)
{
    if (!s)
        return NULL;
    list_for_each_entry_safe (struct guest, g, after_g, &s->all, link)
        guest_free(g);
    list_for_each_entry_safe (struct refusal, f, after_f, &s->refusals, link)
        refusal_free(f);
    parcels_free(s->parcels);
    clients_free(s->clients);
    if (s->client)
        wsd_libevent_detach(&s->loop);
    wsd_client_free(s->client);
    hash_deinit(&s->by_id);
    codec_free(s->codec);
    free(s);
    return NULL;
}
