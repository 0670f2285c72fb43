/* SPDX-License-Identifier: Apache-2.0
 *
 * out.c: jobs that go elsewhere.
 * Owns the runner, and the jobs that it holds until their ends come back.
 * Keeps: a job is published under its id, as often as it takes until the server has it. Its end may be told twice; the
 * second one is dropped. Where the live message of an end is lost, the stored one is looked up. A job that is to stop
 * ends here at once; its node is told. Small jobs go together (lanes.c); what is said here of letters holds for theirs.
 * Does not know where a job runs (in.c, on another machine), or wait for the user database (names.c). */
#include "fleet/out.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/runner.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "fleet/bus.h"
#include "fleet/claim.h"
#include "fleet/lanes.h"
#include "fleet/letter.h"
#include "fleet/names.h"
#include "fleet/parts.h"
#include "fleet/room.h"
#include "fleet/withdraw.h"

#define AGAIN_USEC       500000u   /* before a job that was refused, or could not be sent, is sent again */
#define LOOK_USEC        2000000u  /* before the stored end of a job is looked for, at first */
#define LOOK_MAX_USEC    30000000u /* and later */
#define PARCEL_LOOK_USEC 5000000u  /* the same of a job in a parcel: the parcel's ends are looked for first */
#define ENDS_MAX         3u        /* stored ends of a job, with outputs that cannot be had, until it ends with words */
#define DIED_MAX         3u /* times that wsd hands out a job again as its runner died: such a try has no end here */
/* Outputs that come in parts, or have come and wait for their submitter to read them: of all users, and of one */
#define FETCHES_MAX  16u
#define FETCHES_OF   2u
#define TICK_USEC    50000u
#define CONNECT_USEC 1000000u
#define PAUSE_USEC   500000u /* between two tries to connect to wsd */

enum stage {
    TRIP_NAME,    /* the name of its user is not known yet */
    TRIP_ROOM,    /* as many bytes are on their way to the servers as may be */
    TRIP_CLAIMS,  /* whether its key is another job's is not known yet, or that one has no end */
    TRIP_PARCEL,  /* it is in a parcel that the server has not said that it has */
    TRIP_PARTS,   /* the server has not said that it has the parts of its input */
    TRIP_SENDS,   /* .. that it has the job */
    TRIP_WAITS,   /* before it is sent again */
    TRIP_AWAY,    /* the server has it */
    TRIP_FETCHES, /* its end is here, and its output comes in parts */
    TRIP_WRITES,  /* its output is here, and its submitter does not read as fast */
};

#define SENT_ID (LETTER_ID + 11u) /* of a message id: the job's and its attempt */

/* A job that is elsewhere, or on its way. */
struct trip {
    struct list link; /* out->trips */
    struct hash_link by_id;
    struct bus_question question, look; /* to store it; for its end */
    struct claim claim;                 /* of its key */
    struct parts parts;                 /* of its input, and then of its output */
    struct letter_seal seal;            /* of its input, where that is stored in parts */
    struct lane_item item;              /* of the jobs that it may go with */
    struct room_share share;            /* until the server has it */
    struct out *out;
    struct wsd_job *job;
    enum stage stage;
    bool was_sent, has_parts, fetches;
    bool was_up, unsure; /* it was sent while there was a server; and it may be there, without an answer */
    uint32_t n_taken;    /* parts that the server had when it was looked at last */
    uint64_t since_usec; /* the server has taken nothing of it since then */
    uint32_t n_bad_ends;
    uint64_t sequence;   /* in the stream */
    uint32_t connection; /* on which it got that */
    uint64_t due_usec;   /* WAITS: when it is sent again; AWAY: when its end is looked for */
    uint64_t pause_usec;
    uint32_t attempt, uid;
    uint32_t status, state; /* WRITES: of its end */
    char id[LETTER_ID], subject[LETTER_SUBJECT];
    struct buffer letter; /* the job, or while it fetches, its end */
    struct buffer output; /* while it fetches or writes */
};

struct out {
    struct out_options options;
    struct wsd_runner *runner;
    struct event *io, *tick, *again;
    int fd;
    short events;
    struct codec *codec;
    struct names *names;
    struct lanes *lanes;
    struct withdrawals *withdrawals;
    struct room room;    /* of inputs on their way */
    uint64_t taken_usec; /* when a server took something last */
    struct list trips;
    struct hash by_id;
    uint32_t n_writes;  /* trips that write */
    uint64_t down_usec; /* since when there is no server; UINT64_MAX: there is one */
    bool leaving, ended;
    struct out_counters counters;
};

static const char no_memory[] = "wsd-fleet has no memory: submit it again";

static void take_jobs(struct out *o);
static void on_io(evutil_socket_t fd, short what, void *userdata);

static uint64_t key_of(const char *id)
{
    return hash_text(0, id, strlen(id));
}

static struct trip *trip_find(struct out *o, const char *id)
{
    if (o->by_id.n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(&o->by_id, key_of(id)); l; l = hash_next(l)) {
        struct trip *t = container_of(l, struct trip, by_id);

        if (strcmp(t->id, id) == 0)
            return t;
    }
    return NULL;
}

static void trip_free(struct trip *t)
{
    bus_forget(&t->question);
    bus_forget(&t->look);
    claim_forget(&t->claim);
    parts_forget(&t->parts);
    lanes_leave(&t->item, false); /* where it was stopped, it has left before */
    room_leave(&t->out->room, &t->share);
    t->out->n_writes -= t->stage == TRIP_WRITES;
    list_remove(&t->link);
    if (*t->id)
        hash_remove(&t->out->by_id, &t->by_id);
    buffer_deinit(&t->letter);
    buffer_deinit(&t->output);
    t->out->counters.held--;
    free(t);
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

/* The connection to wsd is over: it has decided what becomes of its jobs, and may hand them out again. */
static void forget_all(struct out *o)
{
    while (!list_empty(&o->trips)) {
        struct trip *t = container_of(o->trips.next, struct trip, link);

        (void)wsd_runner_finish(o->runner, t->job, WSD_STATUS_MAX);
        trip_free(t);
    }
}

/* Of this try, and of those before it: their wsd-fleet may have died. */
static void remove_parts(const struct trip *t)
{
    for (uint32_t attempt = t->attempt; attempt > 0 && t->attempt - attempt <= DIED_MAX; attempt--)
        parts_purge(t->out->options.bus, t->out->options.node, t->id, attempt);
}

/* state: as in RUN_END; another one than those counts as 0. If its connection is over, on_io() sees that. */
static void trip_end(struct trip *t, int status, uint32_t state)
{
    if (!state || wsd_runner_finish_as(t->out->runner, t->job, (enum wsd_job_state)state) == -EINVAL)
        (void)wsd_runner_finish(t->out->runner, t->job, status);
    t->out->counters.ended++;
    if (t->has_parts)
        remove_parts(t);
    trip_free(t);
}

static void end_with(struct trip *t, const char *words)
{
    (void)wsd_job_fail(t->job, WSD_STATUS_MAX, "%s", words);
    claim_release(&t->claim);
    trip_end(t, WSD_STATUS_MAX, 0);
}

/* Writes what its submitter has room for, so that no other job waits for that one to read. Then it ends. */
static void write_on(struct trip *t)
{
    struct buffer *output = &t->output;

    while (buffer_size(output)) {
        size_t n = MIN(buffer_size(output), wsd_runner_room(t->job));

        if (n == 0)
            return;
        (void)wsd_job_write(t->job, buffer_data(output), n);
        buffer_drop(output, n);
    }
    trip_end(t, (int)t->status, t->state);
}

static void write_all(struct out *o)
{
    list_for_each_entry_safe (struct trip, t, after_t, &o->trips, link) {
        if (t->stage == TRIP_WRITES)
            write_on(t);
    }
}

/* A server has it. */
static void has_been_taken(struct trip *t)
{
    t->out->taken_usec = clock_monotonic_usec();
    room_leave(&t->out->room, &t->share);
}

/* Its output is in t->output. */
static void finish(struct trip *t, const struct msg_run_end *end)
{
    has_been_taken(t); /* the answer to its letter may have been lost, or come later */
    bus_forget(&t->question);
    bus_forget(&t->look);
    if (end->text.size)
        wsd_job_status(t->job, "%.*s", (int)end->text.size, end->text.data);
    if (end->error.size)
        (void)wsd_job_fail(t->job, (int)end->status, "%.*s", (int)end->error.size, end->error.data);
    t->status = end->status;
    t->state = end->state;
    t->stage = TRIP_WRITES;
    t->out->n_writes++;
    write_on(t);
}

static void look_after(struct trip *t, uint64_t pause_usec)
{
    t->stage = TRIP_AWAY;
    t->due_usec = clock_monotonic_usec() + pause_usec;
}

static void output_came(struct parts *p, int error)
{
    struct trip *t = container_of(p, struct trip, parts);
    struct out *o = t->out;
    struct letter_end end = {0};
    char why[160], words[256];

    t->stage = TRIP_AWAY;
    if (error == 0)
        error = letter_get_end(o->codec, buffer_data(&t->letter), buffer_size(&t->letter), &end, why);
    t->n_bad_ends += error == -ENOENT || error == -EBADMSG;
    if (error == 0) {
        finish(t, &end.end);
    } else if (t->n_bad_ends >= ENDS_MAX) {
        snprintf(words, sizeof(words), "its output could not be read: %s", p->why);
        end_with(t, words);
    } else {
        buffer_deinit(&t->output);
        t->fetches = false;
        look_after(t, LOOK_USEC);
    }
    take_jobs(o);
}

/* Whether as many outputs are on their way, or in memory, as may be. */
static bool are_many(const struct trip *t)
{
    uint32_t n = 0, n_own = 0;

    list_for_each_entry (const struct trip, other, &t->out->trips, link) {
        n += other->fetches;
        n_own += other->fetches && other->uid == t->uid;
    }
    return n >= FETCHES_MAX || n_own >= FETCHES_OF;
}

/* Its end is here, but for the output. */
static void fetch(struct trip *t, const struct letter_seal *seal, natsMsg *msg)
{
    bool is_own = strcmp(bus_text(msg, HOME_HEADER), t->out->options.node) == 0; /* else of a node that is older */
    const struct parts_name name = {.bus = t->out->options.bus,
                                    .home = is_own ? t->out->options.node : NULL,
                                    .id = t->id,
                                    .attempt = t->attempt,
                                    .way = "out"};

    t->has_parts = true;
    has_been_taken(t);
    bus_forget(&t->question);
    parts_forget(&t->parts);
    buffer_drop(&t->letter, buffer_size(&t->letter));
    if (are_many(t) || buffer_put(&t->letter, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)) < 0 ||
        parts_fetch(&t->parts, &name, seal, &t->output, output_came) < 0) {
        look_after(t, AGAIN_USEC);
        return;
    }
    t->stage = TRIP_FETCHES;
    t->fetches = true;
}

/* What a node has said of the job. */
static void came_back(struct out *o, struct trip *t, natsMsg *msg)
{
    struct letter_end end = {0};
    char why[160];
    int r = t->stage >= TRIP_FETCHES /* it is here already */
                ? -EALREADY
                : letter_get_end(o->codec, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), &end, why);

    if (r < 0 && r != -EALREADY) /* the tick looks for another one */
        log_warning("wsd-fleet: job %s: its end cannot be read: %s", t->id, r == -ENOMEM ? "out of memory" : why);
    lanes_hear(&t->item, msg);
    if (r == 0 && end.end.run == t->attempt) { /* else of an earlier try, which wsd has had */
        if (end.seal.size) {
            fetch(t, &end.seal, msg);
        } else {
            t->output = end.output;
            end.output = (struct buffer){0};
            finish(t, &end.end);
        }
    }
    buffer_deinit(&end.output);
}

static void on_end(natsMsg *msg, void *context)
{
    struct out *o = context;
    const char *subject = natsMsg_GetSubject(msg), *id = strrchr(subject, '.');
    struct trip *t = id ? trip_find(o, id + 1) : NULL;

    if (t)
        came_back(o, t, msg);
    else if (!id || !lanes_came(o->lanes, id + 1, msg))
        o->counters.second_ends++;
    natsMsg_Destroy(msg);
    take_jobs(o);
}

/* What a node says of a job that runs there. */
static void take_live(struct trip *t, natsMsg *msg)
{
    struct span rest = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    struct msg m;
    char why[160];

    if (rest.size > LIVE_MAX || t->stage >= TRIP_FETCHES)
        return;
    while (rest.size > 0 && live_get(t->out->codec, &rest, &m, why) == 0) {
        if (m.type == FRAME_RUN_PROGRESS && m.run_progress.run == t->attempt)
            wsd_job_progress(t->job, m.run_progress.done, m.run_progress.total);
        else if (m.type == FRAME_RUN_MESSAGE && m.run_message.run == t->attempt)
            wsd_job_log(t->job, (int)m.run_message.level, "%.*s", (int)m.run_message.text.size,
                        m.run_message.text.data);
    }
}

static void on_live(natsMsg *msg, void *context)
{
    struct out *o = context;
    const char *id = strrchr(natsMsg_GetSubject(msg), '.');
    struct trip *t = id ? trip_find(o, id + 1) : NULL;

    if (t)
        take_live(t, msg);
    natsMsg_Destroy(msg);
    take_jobs(o);
}

/* The end of the other job that has its key. */
static void other_end(struct trip *t, natsMsg *msg)
{
    struct letter_end end = {0};
    char why[160];
    int r = bus_found(msg) == BUS_FOUND
                ? letter_get_end(t->out->codec, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), &end, why)
                : -ENOENT;

    if (r == 0 && end.seal.size) {
        end_with(t, "another machine's job with this key has ended, and its output is there only: use another key");
    } else if (r == 0) {
        t->output = end.output;
        finish(t, &end.end);
        return;
    } else {
        claim_again_later(&t->claim);
    }
    buffer_deinit(&end.output);
}

static void looked(struct bus_question *q, natsMsg *msg)
{
    struct trip *t = container_of(q, struct trip, look);
    struct out *o = t->out;

    if (t->stage == TRIP_CLAIMS) {
        other_end(t, msg);
        take_jobs(o);
        return;
    }

    t->pause_usec = MIN(2 * t->pause_usec, (uint64_t)LOOK_MAX_USEC);
    t->due_usec = clock_monotonic_usec() + t->pause_usec;
    if (bus_found(msg) == BUS_FOUND)
        came_back(o, t, msg);
    take_jobs(o);
}

static void look_for_end(struct trip *t)
{
    char subject[LETTER_SUBJECT];

    letter_end_subject(subject, t->out->options.node, t->id);
    t->due_usec = UINT64_MAX;
    bus_ask_last(t->out->options.bus, &t->look, STREAM_RESULTS, subject);
}

/* --- its way ------------------------------------------------------------------------------------------------------ */

/* The message id of its letter. */
static void sent_id(const struct trip *t, char ret[static SENT_ID])
{
    snprintf(ret, SENT_ID, "%s-%u", t->id, t->attempt);
}

static void trip_send(struct trip *t)
{
    char id[SENT_ID];

    t->stage = TRIP_SENDS;
    t->out->counters.sent += !t->was_sent;
    t->out->counters.sent_again += t->was_sent;
    t->was_sent = true;
    t->was_up = bus_is_up(t->out->options.bus);
    lanes_sends(&t->item, true);
    sent_id(t, id);
    bus_ask_saying(t->out->options.bus, &t->question, t->subject, id, HOME_HEADER, t->out->options.node,
                   buffer_data(&t->letter), buffer_size(&t->letter));
}

static void send_later(struct trip *t)
{
    t->stage = TRIP_WAITS;
    t->due_usec = clock_monotonic_usec() + AGAIN_USEC;
}

static void stored(struct bus_question *q, natsMsg *msg)
{
    struct trip *t = container_of(q, struct trip, question);
    json_error_t error;
    json_t *j = msg && bus_status(msg) == 0
                    ? json_loadb(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), 0, &error)
                    : NULL;
    const json_t *sequence = j ? json_object_get(j, "seq") : NULL;

    if (json_integer_value(sequence) > 0) { /* 0: it was refused */
        t->sequence = (uint64_t)json_integer_value(sequence);
        t->connection = bus_connection(t->out->options.bus);
        t->stage = TRIP_AWAY;
        buffer_deinit(&t->letter);
        has_been_taken(t);
        t->pause_usec = LOOK_USEC;
        t->due_usec = clock_monotonic_usec() + LOOK_USEC;
        if (json_is_true(json_object_get(j, "duplicate")))
            look_for_end(t); /* it was sent by an earlier wsd-fleet, and may have ended */
    } else {
        t->unsure = msg ? t->unsure && bus_status(msg) : t->unsure || t->was_up;
        send_later(t); /* no answer, no stream, or it is full */
    }
    json_decref(j);
    lanes_sends(&t->item, false);
}

static struct trip *trip_of(struct lane_item *item)
{
    return container_of(item, struct trip, item);
}

/* It was to go with others, and there are none. */
static void goes_alone(struct lane_item *item, struct buffer *letter)
{
    struct trip *t = trip_of(item);

    buffer_deinit(&t->letter);
    t->letter = *letter;
    *letter = (struct buffer){0};
    trip_send(t);
}

/* lanes.c looks for the ends of the parcel. Later this one is looked for by its own id, too. */
static void parcel_stored(struct lane_item *item)
{
    struct trip *t = trip_of(item);

    has_been_taken(t);
    if (t->stage >= TRIP_FETCHES) /* its end came before this answer */
        return;
    t->pause_usec = PARCEL_LOOK_USEC;
    look_after(t, PARCEL_LOOK_USEC);
}

static void parcel_ended(struct lane_item *item, struct letter_end *end)
{
    struct trip *t = trip_of(item);

    if (t->stage >= TRIP_FETCHES) /* it was told alone, too */
        return;
    t->output = end->output;
    end->output = (struct buffer){0};
    finish(t, &end->end);
}

/* The arguments, each with its NUL. Returns 0 or -ENOMEM. */
static int gather_args(const struct wsd_job *job, struct buffer *args)
{
    for (uint32_t i = 1; i < job->argc; i++)
        if (buffer_put(args, job->argv[i], strlen(job->argv[i]) + 1) < 0)
            return -ENOMEM;
    return 0;
}

/* Puts it into a letter. seal: of the input's parts; NULL: the input is in the letter. Returns 0, -E2BIG or -ENOMEM. */
static int write_letter(struct trip *t, struct msg_run *run, const struct letter_seal *seal)
{
    const struct wsd_job *job = t->job;
    const char *node = t->out->options.node;

    if (!seal && lanes_take(&t->item, run->job.args.size + job->input_size)) {
        t->stage = TRIP_PARCEL;
        return lanes_put(&t->item, run, job->input, job->input_size);
    }
    int r = seal ? letter_put_sealed_job(&t->letter, node, run, seal)
                 : letter_put_job(&t->letter, node, run, job->input, job->input_size);
    if (r == 0)
        trip_send(t);
    return r;
}

/* Returns 0, -E2BIG, -ENOMEM, or -EAGAIN: the name of its user is not known yet. */
static int send_letter(struct trip *t, const struct letter_seal *seal)
{
    const struct wsd_job *job = t->job;
    struct wsd_run_info info = WSD_INIT(struct wsd_run_info);
    struct buffer args = {0};
    uint64_t now = clock_monotonic_usec();
    const char *user;

    (void)wsd_runner_info(job, &info);
    int r = names_of(t->out->names, info.uid, &user);
    if (r < 0)
        return r;
    r = gather_args(job, &args);
    struct msg_run run = {.uid = info.uid,
                          .attempt = info.attempt,
                          .user = {user, strlen(user)},
                          .job = {.function = {job->argv[0], strlen(job->argv[0])},
                                  .traceparent = {info.traceparent, strlen(info.traceparent)},
                                  .args = {(const char *)buffer_data(&args), buffer_size(&args)},
                                  .argc = job->argc - 1,
                                  .priority = info.priority}};
    if (job->deadline_usec)
        run.job.timeout_usec = job->deadline_usec > now ? job->deadline_usec - now : 1;
    memcpy(run.id, job->id, sizeof(run.id));
    r = r < 0 ? r : write_letter(t, &run, seal);
    buffer_deinit(&args);
    return r;
}

static void send_parts(struct trip *t);

/* At most one message of each input is on its way. */
static bool has_room(struct trip *t)
{
    uint64_t size = MIN(t->job->input_size, (uint64_t)LETTER_MAX) + 1;

    return room_take(&t->out->room, &t->share, size);
}

static void write_and_send(struct trip *t)
{
    if (!has_room(t)) {
        t->stage = TRIP_ROOM;
        return;
    }
    int r = send_letter(t, t->seal.size ? &t->seal : NULL);

    if (r == -EAGAIN)
        t->stage = TRIP_NAME;
    else if (r == -E2BIG)
        send_parts(t);
    else if (r < 0)
        end_with(t, no_memory);
}

/* Its key is its own; or that of another job, of which the end is looked for. */
static void claimed(struct claim *c)
{
    struct trip *t = container_of(c, struct trip, claim);
    struct out *o = t->out;
    char subject[LETTER_SUBJECT];

    if (c->is_own) {
        write_and_send(t);
    } else {
        letter_end_subject(subject, c->node, c->id);
        bus_ask_last(o->options.bus, &t->look, STREAM_RESULTS, subject);
    }
    take_jobs(o);
}

/* What comes before it is sent. */
static void begin(struct trip *t)
{
    struct wsd_run_info info = WSD_INIT(struct wsd_run_info);
    const char *user;
    char nameless[LETTER_NAME + 16];

    (void)wsd_runner_info(t->job, &info);
    if (!*info.key || t->claim.is_own) {
        write_and_send(t);
        return;
    }
    t->stage = TRIP_NAME;
    if (names_of(t->out->names, info.uid, &user) < 0)
        return;
    snprintf(nameless, sizeof(nameless), "%u %s", info.uid, t->out->options.node); /* no user elsewhere */
    t->stage = TRIP_CLAIMS;
    claim_begin(&t->claim, t->out->options.bus, *user ? user : nameless, info.key, t->out->options.node, t->id,
                claimed);
}

static void input_sent(struct parts *p, int error)
{
    struct trip *t = container_of(p, struct trip, parts);
    struct out *o = t->out;

    t->seal = p->seal;
    if (error < 0)
        end_with(t, no_memory);
    else
        write_and_send(t);
    take_jobs(o);
}

/* Its input is too large for its letter. */
static void send_parts(struct trip *t)
{
    const struct parts_name name = {.bus = t->out->options.bus, .id = t->id, .attempt = t->attempt, .way = "in"};
    char words[160];

    buffer_deinit(&t->letter);
    if (t->job->input_size > LETTER_INPUT_MAX) {
        snprintf(words, sizeof(words), "its input is larger than the fleet carries (%llu MiB): split it",
                 LETTER_INPUT_MAX >> 20);
        end_with(t, words);
        return;
    }
    t->stage = TRIP_PARTS;
    t->has_parts = true;
    if (parts_send(&t->parts, &name, t->job->input, t->job->input_size, input_sent) < 0)
        end_with(t, no_memory);
}

static void trip_begin(struct out *o, struct wsd_job *job)
{
    struct wsd_run_info info = WSD_INIT(struct wsd_run_info);
    struct trip *t = calloc(1, sizeof(*t));

    if (!t) {
        (void)wsd_job_fail(job, WSD_STATUS_MAX, "%s", no_memory);
        (void)wsd_runner_finish(o->runner, job, WSD_STATUS_MAX);
        return;
    }
    *t = (struct trip){.out = o, .job = job, .question.answered = stored, .look.answered = looked};
    list_init(&t->link);
    list_push_back(&o->trips, &t->link);
    o->counters.held++;
    (void)wsd_runner_info(job, &info);
    t->attempt = info.attempt;
    t->uid = info.uid;
    t->since_usec = clock_monotonic_usec();
    if (!letter_job_subject(t->subject, job->argv[0], info.priority)) {
        end_with(t, "the name of a plugin that goes elsewhere has letters, digits, _ and - only, and may have . and 16 "
                    "digits of a build id behind it");
        return;
    }
    letter_id_text(job->id, t->id);
    if (hash_insert(&o->by_id, &t->by_id, key_of(t->id)) < 0) {
        *t->id = 0;
        end_with(t, no_memory);
        return;
    }
    /* a node looks for what became of an earlier try of a letter's job only, and a key is of one job */
    if (t->attempt == 1 && !*info.key)
        lanes_enter(o->lanes, &t->item, job->argv[0], info.uid, info.priority);
    begin(t);
}

/* The names of some users may be known now. */
static void on_names(void *context)
{
    struct out *o = context;

    list_for_each_entry_safe (struct trip, t, after_t, &o->trips, link)
        if (t->stage == TRIP_NAME)
            begin(t);
    take_jobs(o);
}

/* It is cancelled, or its time is over. */
static void stop(struct trip *t)
{
    char id[SENT_ID];
    const struct withdrawn what = {
        .sequence = t->sequence, .connection = t->connection, .message_id = id, .job = t->id};

    sent_id(t, id);
    withdraw(t->out->withdrawals, &what);
    t->out->counters.cancelled++;
    claim_release(&t->claim);
    lanes_leave(&t->item, true);
    trip_end(t, WSD_STATUS_MAX, 0);
}

/* Whether it has waited for as long as it may for a server that takes it: then it ends, with words. */
static bool is_given_up(struct trip *t, uint64_t now)
{
    uint64_t wait = t->out->options.wait_usec;
    bool is_down = now >= t->out->down_usec && now - t->out->down_usec >= wait;
    char words[256];

    if (t->n_taken != t->parts.n) { /* an input may take its time */
        t->n_taken = t->parts.n;
        t->since_usec = t->out->taken_usec = now;
    }
    if (t->stage == TRIP_ROOM) /* it waits for others */
        t->since_usec = MAX(t->since_usec, t->out->taken_usec);
    bool is_other = t->stage == TRIP_CLAIMS && *t->claim.id; /* which a server has taken */
    if (t->stage == TRIP_SENDS || t->stage > TRIP_WAITS || is_other || (!is_down && now - t->since_usec < wait))
        return false;
    snprintf(words, sizeof(words),
             "%s for %" PRIu64 " s, which is [fleet] wait in wsd.conf: see `wsctl fleet status`%s",
             is_down ? "no NATS server was there" : "the NATS servers have not taken it", wait / 1000000,
             t->unsure || t->stage == TRIP_PARCEL ? ". It was sent, and may run" : ", then submit it again");
    end_with(t, words);
    return true;
}

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    struct out *o = userdata;
    uint64_t now = clock_monotonic_usec();

    bool is_full = false;
    withdrawals_tick(o->withdrawals, now);
    list_for_each_entry_safe (struct trip, t, after_t, &o->trips, link) {
        bool stopped = wsd_job_cancelled(t->job);

        if (stopped && wsd_runner_fd(o->runner) < 0) { /* it is its connection that is over */
            forget_all(o);
            break;
        }
        if (stopped) {
            stop(t);
            continue;
        }
        parts_tick(&t->parts, now);
        if (is_given_up(t, now))
            continue;
        claim_tick(&t->claim, now);
        if (t->stage == TRIP_NAME) {
            begin(t);
        } else if (t->stage == TRIP_ROOM && !is_full) {
            is_full = !has_room(t); /* those that wait behind it go on waiting */
            if (!is_full)
                write_and_send(t);
        } else if (t->stage == TRIP_WAITS && now >= t->due_usec) {
            trip_send(t);
        } else if (t->stage == TRIP_AWAY && now >= t->due_usec) {
            look_for_end(t);
        }
    }
    lanes_tick(o->lanes, now);
    take_jobs(o);
}

void out_state(struct out *o, bool up)
{
    o->down_usec = up ? UINT64_MAX : clock_monotonic_usec();
    if (!up)
        return;
    list_for_each_entry (struct trip, t, &o->trips, link) {
        t->pause_usec = LOOK_USEC;
        t->due_usec = clock_monotonic_usec() + (t->item.parcel ? LOOK_USEC : 0); /* what came meanwhile was lost */
    }
    lanes_look(o->lanes);
}

/* --- the runner --------------------------------------------------------------------------------------------------- */

/* Watches what the runner wants watched; connects where there is no connection. */
static void watch(struct out *o)
{
    int fd = wsd_runner_fd(o->runner);
    short events = wsd_runner_events(o->runner);

    if (o->ended)
        return;
    if (fd < 0) {
        event_del(o->io);
        o->fd = -1;
        if (!evtimer_pending(o->again, NULL))
            event_add(o->again, &(struct timeval){.tv_usec = PAUSE_USEC});
        return;
    }
    if (fd == o->fd && events == o->events)
        return;
    event_del(o->io);
    event_assign(o->io, o->options.base, fd,
                 (short)(EV_PERSIST | (events & POLLIN ? EV_READ : 0) | (events & POLLOUT ? EV_WRITE : 0)), on_io, o);
    event_add(o->io, NULL);
    o->fd = fd;
    o->events = events;
}

/* What has come. Also after other calls on the runner or its jobs: they read the connection, too, and then no event
 * tells of what they have read. */
static void take_jobs(struct out *o)
{
    struct wsd_job *job;
    int r;

    while ((r = wsd_runner_next(o->runner, 0, &job)) == 1)
        trip_begin(o, job);
    if (r == -ECONNRESET)
        forget_all(o);
    lanes_flush(o->lanes);
    if (o->n_writes > 0)
        write_all(o);
    if (r == -ESHUTDOWN && !o->ended) {
        o->ended = true;
        o->options.ended(0, NULL, o->options.context);
    }
    watch(o);
}

static void on_io(evutil_socket_t fd, short what, void *userdata)
{
    take_jobs(userdata);
}

static void on_again(evutil_socket_t fd, short what, void *userdata)
{
    struct out *o = userdata;
    int r = o->leaving ? -ESHUTDOWN : wsd_runner_connect(o->runner, CONNECT_USEC);

    if (r == 0) {
        take_jobs(o);
        return;
    }
    if (r == -EINVAL || r == -EOPNOTSUPP || r == -EACCES || r == -ESHUTDOWN) {
        o->ended = true;
        o->options.ended(r == -ESHUTDOWN ? 0 : r, wsd_runner_error(o->runner), o->options.context);
        return;
    }
    watch(o);
}

void out_leave(struct out *o)
{
    o->leaving = true;
    (void)wsd_runner_leave(o->runner);
    take_jobs(o);
}

struct out_counters out_count(const struct out *o)
{
    struct out_counters c = o->counters;

    const struct lanes_counters l = lanes_count(o->lanes);

    c.parcels = l.parcels;
    c.bytes = o->room.used;
    c.waiting = o->room.n_waiting;
    c.sent += l.jobs;
    c.sent_again += l.again;
    return c;
}

static const struct wsd_function function = {
    .name = "*", .help = "a plugin of another machine", .flags = WSD_FN_IDEMPOTENT};
static const struct wsd_plugin offer = {.size = sizeof(offer),
                                        .abi = WSD_PLUGIN_ABI,
                                        .name = OUT_PLACE,
                                        .version = "1",
                                        .help = "jobs for the machines of the fleet",
                                        .n_functions = 1,
                                        .function_size = sizeof(struct wsd_function),
                                        .functions = &function};

int out_new(struct out **ret_out, const struct out_options *options)
{
    const struct wsd_runner_options how = {
        .size = sizeof(how), .socket = options->socket, .credit = WSD_RUNNER_CREDIT_MAX, .flags = WSD_RUNNER_GATHER};
    const struct timeval tick = {.tv_usec = TICK_USEC};
    char subject[LETTER_SUBJECT], live[LETTER_SUBJECT];
    struct out *o = calloc(1, sizeof(*o));

    if (!o)
        return -ENOMEM;
    o->options = *options;
    o->fd = -1;
    o->down_usec = clock_monotonic_usec();
    list_init(&o->trips);
    letter_end_subject(subject, options->node, "*");
    letter_live_subject(live, options->node, "*");
    o->io = event_new(options->base, -1, 0, on_io, o);
    o->tick = event_new(options->base, -1, EV_PERSIST, on_tick, o);
    o->again = evtimer_new(options->base, on_again, o);
    int r = !o->io || !o->tick || !o->again ? -ENOMEM : codec_new(&o->codec);
    if (r == 0)
        r = withdrawals_new(&o->withdrawals, options->bus);
    const struct lanes_options lanes = {.bus = options->bus,
                                        .node = options->node,
                                        .codec = o->codec,
                                        .withdrawals = o->withdrawals,
                                        .alone = goes_alone,
                                        .stored = parcel_stored,
                                        .ended = parcel_ended};
    if (r == 0)
        r = lanes_new(&o->lanes, &lanes);
    if (r == 0)
        r = names_new(&o->names, options->base, on_names, o);
    if (r == 0)
        r = wsd_runner_new(&o->runner, &how);
    if (r == 0)
        r = wsd_runner_offer(o->runner, &offer);
    if (r == 0)
        r = bus_subscribe(options->bus, subject, on_end, o);
    if (r == 0)
        r = bus_subscribe(options->bus, live, on_live, o);
    if (r < 0) {
        out_free(o);
        return r;
    }
    event_add(o->tick, &tick);
    event_add(o->again, &(struct timeval){0});
    *ret_out = o;
    return 0;
}

struct out *out_free(struct out *o)
{
    if (!o)
        return NULL;
    while (!list_empty(&o->trips)) /* wsd hands them out again */
        trip_free(container_of(o->trips.next, struct trip, link));
    wsd_runner_free(o->runner);
    for (struct event **e = (struct event *[]){o->io, o->tick, o->again, NULL}; *e; e++)
        event_free(*e);
    hash_deinit(&o->by_id);
    lanes_free(o->lanes);
    withdrawals_free(o->withdrawals);
    codec_free(o->codec);
    names_free(o->names);
    free(o);
    return NULL;
}
