/* SPDX-License-Identifier: Apache-2.0
 *
 * in.c: jobs that come from elsewhere.
 * Owns the requests for jobs, and the jobs that this node holds until their ends are stored.
 * Keeps: never more than `held` are asked for and held, and a few more of the class hi. A job is acknowledged when its
 * end is stored, not before. While it is held the server hears of it at each third of its patience. A function that may
 * not run twice is marked as begun before it begins; where another node had it and did not give it back, it ends as
 * interrupted.
 * Does not know where a job comes from, but for the name that its end is sent to. */
#include "fleet/in.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/adapters/libevent.h>
#include <wsd/client.h>
#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "fleet/bus.h"
#include "fleet/letter.h"

#define PLUGINS_MAX   256u
#define LEARN_USEC    1000000u
#define HI_RESERVE    4u        /* jobs of the class hi that may come though the node is full */
#define EXPIRES_USEC  30000000u /* of a request for jobs */
#define TURN_USEC     1000000u  /* the same, where consumers have to take turns */
#define CLEAN_USEC    5000000u  /* between two looks whether a consumer has nothing to do */
#define BUSY_USEC     10000000u /* a consumer had jobs lately */
#define STORED_USEC   2000000u
#define TICK_USEC     100000u
#define BACK_NSEC     500000000u /* before a job that was given back is handed out again */
#define DELIVERED_MAX 10u        /* a job that so many nodes have not ended is dead */

/* A consumer of the stream: jobs of one class for one plugin. */
struct pull {
    struct in *in;
    enum letter_class class;
    const char *plugin;
    char consumer[128];
    struct bus_question question; /* to make it */
    bool made, busy;
    uint64_t had_usec;   /* when a job came; 0: none has */
    uint64_t clean_usec; /* when it is looked at for what a server has left; UINT64_MAX: it was */
    uint32_t asked;      /* jobs that have not come */
    uint32_t serial;     /* of the request */
    uint64_t expires_usec;
};

/* What is known of a function of wsd's. */
struct known {
    struct hash_link by_name;
    bool idempotent;
    char name[];
};

enum stage {
    GUEST_LOOKS, /* whether its end is stored: it came before */
    GUEST_ASKS,  /* whether another node has begun it */
    GUEST_MARKS, /* that it begins */
    GUEST_RUNS,
    GUEST_TELLS, /* its end is not stored yet */
    GUEST_WAITS, /* before it is told again */
};

/* A job that this node has. */
struct guest {
    struct list link;
    struct hash_link by_id;
    struct in *in;
    struct bus_question question;
    struct wsd_call *call; /* NULL: it does not run */
    enum stage stage;
    bool idempotent, marked;
    uint32_t attempt, ended_before; /* ended_before: the last try whose end is stored; 0: none is */
    uint64_t due_usec;
    char id[LETTER_ID], home[LETTER_NAME], receipt[BUS_SUBJECT], plugin[CODEC_NAME_MAX];
    struct buffer job; /* the letter, until it has begun */
    struct buffer input, output, letter;
    uint32_t status; /* while it tells */
};

struct in {
    struct in_options options;
    struct wsd_client *client;
    struct wsd_libevent loop;
    struct event *tick;
    struct codec *codec;
    char *names; /* that plugins point into */
    struct pull *pulls;
    uint32_t n_pulls;
    struct hash functions, by_id;
    struct list guests;
    uint32_t next_pull; /* which idle one is asked next */
    bool connected, leaving;
    bool has_learnt;        /* what wsd has */
    uint64_t learn_usec;    /* when it may be asked again */
    uint64_t patience_usec; /* when the server has to hear of what is held */
    struct in_counters counters;
};

static void refill(struct in *i);

/* --- what wsd has ------------------------------------------------------------------------------------------------- */

static uint64_t key_of(const char *text)
{
    return hash_text(0, text, strlen(text));
}

/* NULL: wsd had no such function when it was asked. */
static struct known *find_known(const struct in *i, const char *name)
{
    if (i->functions.n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(&i->functions, key_of(name)); l; l = hash_next(l)) {
        struct known *k = container_of(l, struct known, by_name);

        if (strcmp(k->name, name) == 0)
            return k;
    }
    return NULL;
}

static int know(struct in *i, const char *plugin, const char *function, bool idempotent)
{
    char name[CODEC_PLACE_MAX];

    snprintf(name, sizeof(name), *function ? "%s:%s" : "%s%s", plugin, function);
    struct known *k = find_known(i, name);
    if (!k) {
        k = calloc(1, sizeof(*k) + strlen(name) + 1);
        if (!k || hash_insert(&i->functions, &k->by_name, key_of(name)) < 0) {
            free(k);
            return -ENOMEM;
        }
        memcpy(k->name, name, strlen(name) + 1);
    }
    k->idempotent = idempotent;
    return 0;
}

/* Whether the name is one of a list with commas between. */
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

static int add_pulls(struct in *i, const char *plugin);

static int take_plugin(const struct wsd_plugin_info *info, void *userdata)
{
    struct in *i = userdata;
    int r = 0;

    if (info->runs || *info->error || info->n_functions == 0 ||
        !letter_is_name(info->name, strlen(info->name), CODEC_NAME_MAX) ||
        (i->options.plugins && !is_listed(i->options.plugins, info->name)))
        return 0;
    for (size_t f = 0; r == 0 && f < info->n_functions; f++) {
        bool idempotent = info->functions[f].flags & WSD_FN_IDEMPOTENT,
             is_main = strcmp(info->functions[f].name, info->name) == 0;

        r = know(i, info->name, info->functions[f].name, idempotent);
        if (r == 0 && (f == 0 || is_main))
            r = know(i, info->name, "", idempotent);
    }
    return r < 0 ? r : add_pulls(i, info->name);
}

/* Asks wsd again, where it may have other plugins now. Blocks for a moment. */
static void learn(struct in *i)
{
    const struct wsd_open how = {
        .size = sizeof(how), .socket = i->options.socket, .timeout_usec = LEARN_USEC, .deadline_usec = LEARN_USEC};
    struct wsd_client *client = NULL;
    int r = wsd_client_open_with(&client, &how);

    if (r == 0)
        r = wsd_client_plugins(client, NULL, take_plugin, i);
    if (r < 0)
        log_warning("wsd-fleet: wsd cannot be asked what it has, and is asked again: %s", wsd_client_error(client));
    wsd_client_free(client);
    i->has_learnt = r == 0;
    i->learn_usec = clock_monotonic_usec() + LEARN_USEC;
}

/* --- what this node holds ----------------------------------------------------------------------------------------- */

static void guest_free(struct guest *g)
{
    struct in *i = g->in;

    bus_forget(&g->question);
    list_remove(&g->link);
    if (*g->id)
        hash_remove(&i->by_id, &g->by_id);
    wsd_call_free(g->call);
    buffer_deinit(&g->job);
    buffer_deinit(&g->input);
    buffer_deinit(&g->output);
    buffer_deinit(&g->letter);
    free(g);
    i->counters.held--;
    if (i->leaving && i->counters.held == 0)
        i->options.ended(i->options.context);
    else
        refill(i);
}

/* Not begun, or may begin again: another node gets it, or this one once more. */
static void give_back(struct guest *g)
{
    char words[64], subject[LETTER_SUBJECT];

    if (g->marked) {
        letter_end_subject(subject, "begun", g->id);
        (void)bus_tell(g->in->options.bus, subject, NULL, "0", 1);
    }
    int n = snprintf(words, sizeof(words), "-NAK {\"delay\":%u}", BACK_NSEC);
    (void)bus_tell(g->in->options.bus, g->receipt, NULL, words, (size_t)n);
    g->in->counters.given_back++;
    guest_free(g);
}

static void tell_end(struct guest *g)
{
    char subject[LETTER_SUBJECT], id[LETTER_ID + 16];

    g->stage = GUEST_TELLS;
    letter_end_subject(subject, g->home, g->id);
    snprintf(id, sizeof(id), "end-%s-%u", g->id, g->attempt);
    bus_ask(g->in->options.bus, &g->question, subject, id, buffer_data(&g->letter), buffer_size(&g->letter),
            STORED_USEC);
}

/* The job has ended here, with these words where it has not succeeded. */
static void end(struct guest *g, uint32_t status, const char *error, const char *text)
{
    const struct msg_run_end e = {
        .run = g->attempt, .status = status, .error = {error, strlen(error)}, .text = {text, strlen(text)}};
    int r = letter_put_end(&g->letter, &e, buffer_data(&g->output), buffer_size(&g->output));

    if (r == -E2BIG) {
        static const char large[] = "its output is larger than a message of the fleet may be (1,032,192 bytes)";
        const struct msg_run_end too_large = {
            .run = g->attempt, .status = WSD_STATUS_MAX, .error = {large, sizeof(large) - 1}};

        buffer_drop(&g->letter, buffer_size(&g->letter));
        r = letter_put_end(&g->letter, &too_large, NULL, 0);
    }
    if (r < 0) {
        log_warning("wsd-fleet: job %s: no memory for its end", g->id);
        give_back(g);
        return;
    }
    tell_end(g);
}

static void end_badly(struct guest *g, const char *what, const char *why)
{
    char words[WSD_TEXT_MAX];

    snprintf(words, sizeof(words), "%s on %s%s%.180s", what, g->in->options.node, *why ? ": " : "", why);
    end(g, WSD_STATUS_MAX, words, "");
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static int on_output(struct wsd_call *call, const void *data, size_t size, void *userdata)
{
    struct guest *g = userdata;

    if (buffer_size(&g->output) <= LETTER_MAX && buffer_put(&g->output, data, size) < 0)
        wsd_call_cancel(call);
    return 0;
}

static void ended_here(struct guest *g, const struct wsd_job_info *info)
{
    static const char *const words[] = {[WSD_JOB_CANCELLED] = "cancelled",
                                        [WSD_JOB_TIMED_OUT] = "timed out",
                                        [WSD_JOB_CRASHED] = "crashed",
                                        [WSD_JOB_INTERRUPTED] = "interrupted"};

    if (info->state == WSD_JOB_SUCCEEDED)
        end(g, 0, "", info->status);
    else if (info->state == WSD_JOB_FAILED && info->exit >= 1 && info->exit <= WSD_STATUS_MAX)
        end(g, (uint32_t)info->exit, info->error, info->status);
    else if (info->state == WSD_JOB_INTERRUPTED && g->idempotent)
        give_back(g);
    else
        end_badly(g,
                  info->state < sizeof(words) / sizeof(words[0]) && words[info->state] ? words[info->state] : "failed",
                  info->error);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    struct guest *g = userdata;
    bool may_have_run = error == -ECONNRESET && wsd_client_exit(g->in->client) == 125;

    g->call = NULL;
    if (error == 0)
        ended_here(g, info);
    else if (error == -EINVAL || error == -ENOENT || error == -EACCES)
        end_badly(g, "refused", text);
    else if (may_have_run && !g->idempotent)
        end_badly(g, "interrupted", "wsd has ended while it ran, and it may not run twice");
    else
        give_back(g);
    wsd_call_free(call);
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
    snprintf(function, sizeof(function), "%.*s", (int)from->function.size, from->function.data);
    char *colon = strchr(function, ':');
    s.plugin = function;
    if (colon) {
        *colon = 0;
        s.function = colon + 1;
    }
    s.args = args;
    s.n_args = from->argc;
    g->input = job->input; /* stays until the call is done */
    s.input = buffer_data(&g->input);
    s.input_size = buffer_size(&g->input);
    s.timeout_usec = from->timeout_usec;
    s.priority = from->priority;
    callbacks.output = on_output;
    callbacks.done = on_done;
    callbacks.userdata = g;
    int r = wsd_client_submit(g->in->client, &s, &callbacks, &g->call);
    free(args);
    return r;
}

static void run(struct guest *g)
{
    struct letter_job job = {0};
    char why[160];

    g->stage = GUEST_RUNS;
    if (letter_get_job(g->in->codec, buffer_data(&g->job), buffer_size(&g->job), &job, why) < 0) { /* no memory */
        buffer_deinit(&job.input);
        give_back(g);
        return;
    }
    int r = submit(g, &job);
    buffer_deinit(&g->job);
    if (r == -EINVAL)
        end_badly(g, "refused", wsd_client_error(g->in->client));
    else if (r < 0)
        give_back(g);
}

static void mark(struct guest *g)
{
    char subject[LETTER_SUBJECT], attempt[12];
    int n = snprintf(attempt, sizeof(attempt), "%u", g->attempt);

    g->stage = GUEST_MARKS;
    letter_end_subject(subject, "begun", g->id);
    bus_ask(g->in->options.bus, &g->question, subject, NULL, attempt, (size_t)n, STORED_USEC);
}

static void ask_whether_begun(struct guest *g)
{
    char subject[LETTER_SUBJECT], request[LETTER_SUBJECT + 32];

    g->stage = GUEST_ASKS;
    letter_end_subject(subject, "begun", g->id);
    int n = snprintf(request, sizeof(request), "{\"last_by_subj\":\"%s\"}", subject);
    bus_ask(g->in->options.bus, &g->question, "$JS.API.DIRECT.GET." STREAM_RESULTS, NULL, request, (size_t)n,
            STORED_USEC);
}

static void look_for_end(struct guest *g)
{
    char subject[LETTER_SUBJECT], request[LETTER_SUBJECT + 32];

    g->stage = GUEST_LOOKS;
    letter_end_subject(subject, g->home, g->id);
    int n = snprintf(request, sizeof(request), "{\"last_by_subj\":\"%s\"}", subject);
    bus_ask(g->in->options.bus, &g->question, "$JS.API.DIRECT.GET." STREAM_RESULTS, NULL, request, (size_t)n,
            STORED_USEC);
}

static bool has_words(natsMsg *msg, const char *words)
{
    return memmem(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), words, strlen(words));
}

/* The try whose end that is; 0: none is stored. */
static uint32_t last_ended(struct guest *g, natsMsg *msg)
{
    struct letter_end end = {0};
    char why[160];
    int r = bus_status(msg)
                ? -ENOENT
                : letter_get_end(g->in->codec, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), &end, why);

    buffer_deinit(&end.output);
    return r == 0 ? (uint32_t)end.end.run : 0;
}

/* The try that was begun last; 0: none was, or it was given back. */
static uint32_t last_begun(natsMsg *msg)
{
    char text[12];

    snprintf(text, sizeof(text), "%.*s", bus_status(msg) ? 0 : natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    return (uint32_t)strtoul(text, NULL, 10);
}

static bool is_stored(natsMsg *msg)
{
    return msg && bus_status(msg) == 0 && has_words(msg, "\"seq\":");
}

/* The end is stored. Where this is lost, the job comes again, and its end is found. */
static void acknowledge(struct guest *g)
{
    (void)bus_tell(g->in->options.bus, g->receipt, NULL, "+ACK", 4);
    g->in->counters.ended++;
    guest_free(g);
}

static void answered(struct bus_question *q, natsMsg *msg)
{
    struct guest *g = container_of(q, struct guest, question);

    switch (g->stage) {
    case GUEST_LOOKS:
        if (!msg)
            give_back(g);
        else if ((g->ended_before = last_ended(g, msg)) == g->attempt)
            acknowledge(g);
        else if (g->idempotent)
            run(g);
        else
            ask_whether_begun(g);
        return;
    case GUEST_ASKS:
        if (!msg)
            give_back(g);
        else if (last_begun(msg) <= g->ended_before)
            mark(g);
        else {
            g->in->counters.interrupted++;
            end_badly(g, "interrupted", "another node had begun it and did not end it, and it may not run twice");
        }
        return;
    case GUEST_MARKS:
        g->marked = true;
        if (is_stored(msg))
            run(g);
        else
            give_back(g);
        return;
    case GUEST_TELLS:
        if (!is_stored(msg)) {
            g->stage = GUEST_WAITS;
            g->due_usec = clock_monotonic_usec() + STORED_USEC / 4;
            return;
        }
        acknowledge(g);
        return;
    case GUEST_RUNS:
    case GUEST_WAITS:
        return;
    }
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

static void refuse(struct in *i, natsMsg *msg, const char *why)
{
    log_warning("wsd-fleet: a message of %s is no job: %s", natsMsg_GetSubject(msg), why);
    (void)bus_tell(i->options.bus, natsMsg_GetReply(msg), NULL, "+TERM", 5);
}

static struct guest *guest_find(struct in *i, const char *id)
{
    if (i->by_id.n == 0)
        return NULL;
    for (struct hash_link *l = hash_first(&i->by_id, key_of(id)); l; l = hash_next(l)) {
        struct guest *g = container_of(l, struct guest, by_id);

        if (strcmp(g->id, id) == 0)
            return g;
    }
    return NULL;
}

static void id_text(const struct msg_run *run, char ret[static LETTER_ID])
{
    for (size_t n = 0; n < sizeof(run->id); n++)
        snprintf(ret + 2 * n, 3, "%02x", run->id[n]);
}

/* The server took this node for dead, which has the job still. */
static bool has_it(struct in *i, natsMsg *msg, const struct letter_job *job)
{
    char id[LETTER_ID];

    id_text(&job->run, id);
    struct guest *g = guest_find(i, id);
    bool same = g && g->attempt == job->run.attempt;
    if (same)
        snprintf(g->receipt, sizeof(g->receipt), "%s", natsMsg_GetReply(msg));
    return same;
}

/* Fills in what is kept of a job. Returns 0 or -ENOMEM. */
static int guest_fill(struct guest *g, natsMsg *msg, const struct letter_job *job)
{
    char name[CODEC_PLACE_MAX];
    const struct span *function = &job->run.job.function, *home = &job->run.directory;

    snprintf(name, sizeof(name), "%.*s", (int)function->size, function->data);
    const struct known *k = find_known(g->in, name);
    g->idempotent = k && k->idempotent;
    snprintf(g->plugin, sizeof(g->plugin), "%.*s", (int)MIN(strcspn(name, ":"), sizeof(g->plugin) - 1), name);
    snprintf(g->home, sizeof(g->home), "%.*s", (int)home->size, home->data);
    snprintf(g->receipt, sizeof(g->receipt), "%s", natsMsg_GetReply(msg));
    g->attempt = job->run.attempt;
    id_text(&job->run, g->id);
    if (buffer_put(&g->job, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)) < 0 ||
        hash_insert(&g->in->by_id, &g->by_id, key_of(g->id)) < 0) {
        *g->id = 0;
        return -ENOMEM;
    }
    return 0;
}

static void begin(struct guest *g, const struct letter_receipt *receipt)
{
    if (receipt->delivered > 1)
        g->in->counters.redelivered++;
    if (receipt->delivered > DELIVERED_MAX) {
        char subject[LETTER_SUBJECT];

        snprintf(subject, sizeof(subject), "wsd.dead.%s", g->plugin);
        (void)bus_tell(g->in->options.bus, subject, NULL, buffer_data(&g->job), buffer_size(&g->job));
        g->in->counters.dead++;
        end_badly(g, "given up", "no node has ended it, of all that had it");
    } else if (receipt->delivered > 1 || g->attempt > 1) {
        look_for_end(g);
    } else if (g->idempotent) {
        run(g);
    } else {
        mark(g);
    }
}

static void take(struct in *i, natsMsg *msg, const struct letter_receipt *receipt)
{
    struct letter_job job = {0};
    char why[160];
    int r = letter_get_job(i->codec, natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), &job, why);
    struct guest *g = r == 0 && !has_it(i, msg, &job) ? calloc(1, sizeof(*g)) : NULL;

    buffer_deinit(&job.input);
    if (r == -EBADMSG)
        refuse(i, msg, why);
    if (!g)
        return; /* it is here already; or without memory it comes again */
    *g = (struct guest){.in = i, .question.answered = answered};
    list_init(&g->link);
    i->counters.held++;
    i->counters.held_most = MAX(i->counters.held_most, i->counters.held);
    i->counters.taken++;
    list_push_back(&i->guests, &g->link);
    if (guest_fill(g, msg, &job) < 0 || i->leaving) /* it was asked for before */
        give_back(g);
    else
        begin(g, receipt);
}

static struct pull *pull_of(struct in *i, const char *consumer)
{
    for (uint32_t p = 0; p < i->n_pulls; p++)
        if (strcmp(i->pulls[p].consumer, consumer) == 0)
            return &i->pulls[p];
    return NULL;
}

/* The server says that a request is over. */
static void request_over(struct in *i, const char *subject)
{
    uint32_t p, serial;

    if (sscanf(subject + strlen(bus_inbox(i->options.bus)), ".p.%u.%u", &p, &serial) == 2 && p < i->n_pulls &&
        i->pulls[p].serial == serial)
        i->pulls[p].asked = 0;
}

static void on_pulled(natsMsg *msg, void *context)
{
    struct in *i = context;
    struct letter_receipt receipt;
    const char *reply = natsMsg_GetReply(msg);

    if (bus_status(msg) != 0) {
        request_over(i, natsMsg_GetSubject(msg));
        refill(i);
    } else if (reply && letter_get_receipt(reply, &receipt)) {
        struct pull *p = pull_of(i, receipt.consumer);

        if (p) {
            p->asked -= p->asked > 0;
            p->had_usec = clock_monotonic_usec();
        }
        take(i, msg, &receipt);
    }
    natsMsg_Destroy(msg);
}

static void on_cancel(natsMsg *msg, void *context)
{
    const char *id = strrchr(natsMsg_GetSubject(msg), '.');
    struct guest *g = id ? guest_find(context, id + 1) : NULL;

    if (g && g->call)
        wsd_call_cancel(g->call);
    natsMsg_Destroy(msg);
}

/* --- asking for jobs ---------------------------------------------------------------------------------------------- */

static void ask(struct in *i, struct pull *p, uint32_t n, uint64_t expires_usec)
{
    char subject[BUS_SUBJECT], reply[BUS_SUBJECT], request[96];

    snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.MSG.NEXT." STREAM_JOBS ".%s", p->consumer);
    snprintf(reply, sizeof(reply), "%s.p.%u.%u", bus_inbox(i->options.bus), (unsigned)(p - i->pulls), ++p->serial);
    int size = snprintf(request, sizeof(request), "{\"batch\":%u,\"expires\":%" PRIu64 "}", n, expires_usec * 1000);
    if (!bus_tell(i->options.bus, subject, reply, request, (size_t)size))
        return;
    p->asked = n;
    p->expires_usec = clock_monotonic_usec() + expires_usec + 1000000;
}

/* Jobs asked for; of consumers that had none lately, or of all. */
static uint32_t count_asked(const struct in *i, bool idle_only)
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < i->n_pulls; p++)
        n += idle_only && i->pulls[p].busy ? 0 : i->pulls[p].asked;
    return n;
}

/* Those that had jobs lately share what is left. */
static void refill_busy(struct in *i, uint64_t now)
{
    uint32_t used = (uint32_t)i->counters.held + count_asked(i, false), n_busy = 0;

    for (uint32_t p = 0; p < i->n_pulls; p++) {
        struct pull *one = &i->pulls[p];

        one->busy = one->had_usec && now - one->had_usec < BUSY_USEC;
        n_busy += one->made && !one->asked && one->busy;
    }
    for (uint32_t p = 0; p < i->n_pulls && n_busy > 0; p++) {
        struct pull *one = &i->pulls[p];
        uint32_t most = i->options.held + (one->class == CLASS_HI ? HI_RESERVE : 0);

        if (!one->made || one->asked || !one->busy)
            continue;
        if (used < most)
            ask(i, one, MAX((most - used) / n_busy, 1u), EXPIRES_USEC);
        used += one->asked;
        n_busy--;
    }
}

/* The others are asked for one job each, in turn: a part of what may be held is left for those that are busy. */
static void refill_idle(struct in *i)
{
    uint32_t used = (uint32_t)i->counters.held + count_asked(i, false), idle = count_asked(i, true);
    uint32_t most = i->options.held, most_idle = MAX(most - most / 4, 1u);
    uint64_t expires = i->n_pulls > most_idle ? TURN_USEC : EXPIRES_USEC;

    for (uint32_t n = 0; n < i->n_pulls && used < most && idle < most_idle; n++) {
        struct pull *one = &i->pulls[i->next_pull++ % i->n_pulls];

        if (!one->made || one->asked || one->busy)
            continue;
        ask(i, one, 1, expires);
        used += one->asked;
        idle += one->asked;
    }
}

static void refill(struct in *i)
{
    if (i->leaving || !i->connected || !bus_is_up(i->options.bus))
        return;
    refill_busy(i, clock_monotonic_usec());
    refill_idle(i);
}

/* A server that was killed may keep jobs that were acknowledged, which nobody is given any more: nats-server 2.9 does.
 * They are removed while the consumer has no other ones, so that nothing which is held can be meant. */
static void purge(struct pull *p, natsMsg *msg)
{
    char request[256];
    json_error_t error;
    json_t *j = json_loadb(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), 0, &error);
    json_int_t floor = json_integer_value(json_object_get(json_object_get(j, "ack_floor"), "stream_seq"));
    bool idle = json_integer_value(json_object_get(j, "num_pending")) == 0 &&
                json_integer_value(json_object_get(j, "num_ack_pending")) == 0;

    p->clean_usec = idle ? UINT64_MAX : clock_monotonic_usec() + CLEAN_USEC;
    if (idle && floor > 0) {
        int n = snprintf(request, sizeof(request), "{\"filter\":\"wsd.job.*.%s.%s\",\"seq\":%" JSON_INTEGER_FORMAT "}",
                         letter_classes[p->class], p->plugin, floor + 1);
        (void)bus_tell(p->in->options.bus, "$JS.API.STREAM.PURGE." STREAM_JOBS, NULL, request, (size_t)n);
    }
    json_decref(j);
}

static void made(struct bus_question *q, natsMsg *msg)
{
    struct pull *p = container_of(q, struct pull, question);

    if (!msg || bus_status(msg) != 0 || has_words(msg, "\"error\":")) {
        if (p->made)
            p->clean_usec = clock_monotonic_usec() + CLEAN_USEC;
        else
            p->expires_usec = clock_monotonic_usec() + STORED_USEC; /* made again by then */
        if (msg && natsMsg_GetDataLength(msg) > 0)
            log_warning("wsd-fleet: consumer %s: %.*s", p->consumer, MIN(natsMsg_GetDataLength(msg), 200),
                        natsMsg_GetData(msg));
        return;
    }
    p->made = true;
    purge(p, msg);
    refill(p->in);
}

/* Makes the consumer, which may be there. */
static void make(struct pull *p)
{
    char subject[BUS_SUBJECT], request[640];
    const struct in *i = p->in;

    snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.DURABLE.CREATE." STREAM_JOBS ".%s", p->consumer);
    int n = snprintf(
        request, sizeof(request),
        "{\"stream_name\":\"" STREAM_JOBS "\",\"config\":{\"durable_name\":\"%s\",\"ack_policy\":\"explicit\","
        "\"ack_wait\":%" PRIu64 ",\"max_deliver\":-1,\"filter_subject\":\"wsd.job.*.%s.%s\","
        "\"max_ack_pending\":65536,\"max_waiting\":4096,\"deliver_policy\":\"all\",\"replay_policy\":\"instant\"}}",
        p->consumer, i->options.ack_usec * 1000, letter_classes[p->class], p->plugin);
    if (!p->made)
        p->expires_usec = UINT64_MAX;
    bus_ask(i->options.bus, &p->question, subject, NULL, request, (size_t)n, STORED_USEC);
}

static int add_pulls(struct in *i, const char *plugin)
{
    for (uint32_t p = 0; p < i->n_pulls; p++)
        if (strcmp(i->pulls[p].plugin, plugin) == 0)
            return 0;
    if (i->n_pulls == PLUGINS_MAX * N_CLASSES) {
        log_warning("wsd-fleet: %s: jobs are taken for %u plugins, as many as may be: name some by --plugins", plugin,
                    PLUGINS_MAX);
        return 0;
    }
    char *name = strdup(plugin);
    if (!name)
        return -ENOMEM;
    for (enum letter_class c = 0; c < N_CLASSES; c++) {
        struct pull *p = &i->pulls[i->n_pulls++];

        *p = (struct pull){.in = i, .class = c, .plugin = name, .question.answered = made};
        snprintf(p->consumer, sizeof(p->consumer), "%s_%s", letter_classes[c], plugin);
    }
    return 0;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    struct in *i = userdata;
    uint64_t now = clock_monotonic_usec();
    bool is_time = now >= i->patience_usec;

    if (i->connected && !i->has_learnt && now >= i->learn_usec)
        learn(i);
    if (is_time)
        i->patience_usec = now + i->options.ack_usec / 3;
    list_for_each_entry_safe (struct guest, g, after_g, &i->guests, link) {
        if (is_time)
            (void)bus_tell(i->options.bus, g->receipt, NULL, "+WPI", 4);
        if (g->stage == GUEST_WAITS && now >= g->due_usec)
            tell_end(g);
    }
    for (uint32_t p = 0; p < i->n_pulls && bus_is_up(i->options.bus); p++) {
        struct pull *one = &i->pulls[p];

        if ((!one->made && now >= one->expires_usec) || (one->made && !one->question.bus && now >= one->clean_usec))
            make(one);
        else if (one->made && one->asked && now >= one->expires_usec)
            one->asked = 0; /* the server has said nothing of it */
    }
    refill(i);
}

void in_state(struct in *i, bool up)
{
    for (uint32_t p = 0; p < i->n_pulls; p++) {
        i->pulls[p].made = false; /* it is looked at again */
        i->pulls[p].expires_usec = 0;
        i->pulls[p].asked = 0; /* requests go with their connection */
        i->pulls[p].serial++;
    }
    if (up)
        refill(i);
}

static void on_state(int error, void *userdata)
{
    struct in *i = userdata;

    i->connected = error == 0;
    i->has_learnt = false;
}

void in_leave(struct in *i)
{
    i->leaving = true;
    if (i->counters.held == 0)
        i->options.ended(i->options.context);
}

struct in_counters in_count(const struct in *i)
{
    return i->counters;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static int connect_client(struct in *i)
{
    const struct wsd_open how = {.size = sizeof(how),
                                 .socket = i->options.socket,
                                 .flags = WSD_OPEN_AGAIN,
                                 .state = on_state,
                                 .state_userdata = i};
    int r = wsd_client_open_with(&i->client, &how);

    return r < 0 ? r : wsd_libevent_attach(&i->loop, i->options.base, i->client);
}

int in_new(struct in **ret_in, const struct in_options *options)
{
    const struct timeval tick = {.tv_usec = TICK_USEC};
    char subject[BUS_SUBJECT];
    struct in *i = calloc(1, sizeof(*i));

    if (!i)
        return -ENOMEM;
    i->options = *options;
    list_init(&i->guests);
    i->tick = event_new(options->base, -1, EV_PERSIST, on_tick, i);
    int r = i->tick ? codec_new(&i->codec) : -ENOMEM;
    i->pulls = calloc(PLUGINS_MAX * N_CLASSES, sizeof(*i->pulls));
    if (r == 0)
        r = i->pulls ? connect_client(i) : -ENOMEM;
    snprintf(subject, sizeof(subject), "%s.p.>", bus_inbox(options->bus));
    if (r == 0)
        r = bus_subscribe(options->bus, subject, on_pulled, i);
    if (r == 0)
        r = bus_subscribe(options->bus, "wsd.cancel.*", on_cancel, i);
    if (r < 0) {
        in_free(i);
        return r;
    }
    event_add(i->tick, &tick);
    *ret_in = i;
    return 0;
}

struct in *in_free(struct in *i)
{
    if (!i)
        return NULL;
    list_for_each_entry_safe (struct guest, g, after_g, &i->guests, link) {
        wsd_call_free(g->call);
        g->call = NULL;
        bus_forget(&g->question);
        list_remove(&g->link);
        hash_remove(&i->by_id, &g->by_id);
        buffer_deinit(&g->job);
        buffer_deinit(&g->input);
        buffer_deinit(&g->output);
        buffer_deinit(&g->letter);
        free(g);
    }
    if (i->client)
        wsd_libevent_detach(&i->loop);
    wsd_client_free(i->client);
    for (uint32_t p = 0; p < i->n_pulls; p++) {
        bus_forget(&i->pulls[p].question);
        if (i->pulls[p].class == 0)
            free((char *)(uintptr_t)i->pulls[p].plugin);
    }
    for (size_t b = 0; b < i->functions.n_buckets; b++)
        for (struct hash_link *l = i->functions.buckets[b], *next; l; l = next) {
            next = l->next;
            free(container_of(l, struct known, by_name));
        }
    hash_deinit(&i->functions);
    hash_deinit(&i->by_id);
    if (i->tick)
        event_free(i->tick);
    codec_free(i->codec);
    free(i->pulls);
    free(i);
    return NULL;
}
