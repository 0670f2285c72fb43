/* SPDX-License-Identifier: Apache-2.0
 *
 * in.c: requests for jobs of other nodes.
 * Owns the requests, and what is known of the local wsd's plugins.
 * Keeps: never more than `held` are asked for and held, and a few more of the class hi.
 * Does not know what becomes of a job that has come (guest.c). */
#include "fleet/in.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/client.h>
#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "configuration/configuration.h"
#include "fleet/bus.h"
#include "fleet/guest.h"
#include "fleet/letter.h"
#include "fleet/renew.h"
#include "fleet/sweep.h"

#define PLUGINS_MAX  256u
#define PULLS_EACH   (2u * N_CLASSES) /* of a plugin, one behind the other */
#define PULLS_MAX    (PLUGINS_MAX * PULLS_EACH)
#define LEARN_USEC   1000000u
#define HI_RESERVE   4u        /* jobs of the class hi that may come though the node is full */
#define EXPIRES_USEC 30000000u /* of a request for jobs */
#define TURN_USEC    1000000u  /* the same, where consumers have to take turns */
#define CLEAN_USEC   5000000u  /* between two looks whether a consumer has nothing to do */
#define QUIET_USEC   60000000u /* before a further look at one that has had jobs since */
#define BUSY_USEC    10000000u /* a consumer had jobs lately */
#define MAKE_USEC    1000000u  /* between two tries to make a consumer */
#define TICK_USEC    100000u
#define PARCEL_USEC  10000u /* the jobs of a parcel run for so long together: more would not make them cheaper */

/* A consumer of the stream: jobs of one class for one plugin, in letters or in parcels. */
struct pull {
    struct in *in;
    enum letter_class class;
    bool parcels;
    const char *plugin;
    char consumer[128];
    struct bus_question question; /* to make it */
    struct sweep sweep;
    struct renew renew;
    bool made, busy;
    bool is_clean;       /* what a server has left is put right, unless it was left since */
    uint64_t had_usec;   /* when a job came; 0: none has */
    uint64_t clean_usec; /* when it is looked at for that; UINT64_MAX: no more, until jobs come */
    uint32_t asked;      /* letters or parcels that have not come */
    uint32_t serial;     /* of the request */
    uint64_t expires_usec;
};

/* What is known of a function of wsd's. */
struct known {
    struct hash_link by_name;
    bool idempotent;
    uint64_t run_usec; /* of a job, on average of late; 0: unknown */
    char name[];
};

struct in {
    struct in_options options;
    struct guests *guests;
    struct event *tick, *room; /* room: for another job, since this turn of the loop */
    struct pull *pulls;
    uint32_t n_pulls;
    struct hash functions;
    uint32_t next_pull; /* which idle one is asked next */
    bool connected, leaving;
    bool has_learnt;        /* what wsd has */
    bool takes_refused;     /* while it learns: plugins, too, that wsd does not load for the user that asks */
    uint64_t learn_usec;    /* when it may be asked again */
    uint64_t patience_usec; /* when the server has to hear of what is held */
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

static bool may_run_twice(const char *name, void *context)
{
    char plain[CODEC_PLACE_MAX];
    size_t n = letter_plugin(name);

    snprintf(plain, sizeof(plain), "%.*s%s", (int)n, name, name + strcspn(name, ":")); /* without a build */
    const struct known *k = find_known(context, plain);

    return k && k->idempotent;
}

static uint32_t together(const char *name, uint64_t run_usec, void *context)
{
    const struct in *i = context;
    struct known *k = find_known(i, name);

    if (!k || !k->idempotent)
        return 1;
    if (run_usec)
        k->run_usec = k->run_usec ? k->run_usec - k->run_usec / 8 + run_usec / 8 : run_usec;
    uint64_t n = PARCEL_USEC / MAX(k->run_usec, (uint64_t)1);
    return (uint32_t)MAX(MIN(n, (uint64_t)MIN(PARCEL_JOBS, i->options.held / 2)), (uint64_t)1);
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

    if (info->runs || (!i->takes_refused && (*info->error || info->n_functions == 0)) ||
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
    r = r < 0 ? r : add_pulls(i, info->name);
    if (r == 0 && i->options.builds && strlen(info->build) >= LETTER_BUILD) {
        char name[CODEC_NAME_MAX + 1 + LETTER_BUILD];

        snprintf(name, sizeof(name), "%s+%.*s", info->name, (int)LETTER_BUILD, info->build);
        r = add_pulls(i, name);
    }
    return r;
}

/* As that user; NULL: as the own one. */
static int learn_as(struct in *i, const char *user)
{
    const struct wsd_open how = {.size = sizeof(how),
                                 .socket = i->options.socket,
                                 .timeout_usec = LEARN_USEC,
                                 .deadline_usec = LEARN_USEC,
                                 .user = user};
    struct wsd_client *client = NULL;
    int r = wsd_client_open_with(&client, &how);

    if (r == 0)
        r = wsd_client_plugins(client, NULL, take_plugin, i);
    i->takes_refused = r == 0 && i->n_pulls == 0 && i->options.run_as; /* then the own user has no executor here */
    if (i->takes_refused)
        r = wsd_client_plugins(client, NULL, take_plugin, i);
    if (r < 0)
        log_warning("wsd-fleet: wsd cannot be asked what it has%s%s, and is asked again: %s", user ? " for " : "",
                    user ? user : "", wsd_client_error(client));
    else if (i->takes_refused && i->n_pulls > 0)
        log_notice("wsd-fleet: wsd loads no plugin for this user: no function counts as one that may run twice");
    i->takes_refused = false;
    wsd_client_free(client);
    return r;
}

/* Asks wsd again, where it may have other plugins now. Blocks for a moment. */
static void learn(struct in *i)
{
    const char *as = i->options.run_as;
    int r = as && strcmp(as, CONFIG_RUN_AS_SAME) != 0 ? learn_as(i, as) : -EACCES;

    if (r == -EACCES) /* each job that comes has words for it */
        r = learn_as(i, NULL);
    i->has_learnt = r == 0;
    i->learn_usec = clock_monotonic_usec() + LEARN_USEC;
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

static struct pull *pull_of(struct in *i, const char *consumer)
{
    for (uint32_t p = 0; p < i->n_pulls; p++)
        if (strcmp(i->pulls[p].consumer, consumer) == 0)
            return &i->pulls[p];
    return NULL;
}

/* The consumer may be gone: it is made again at this time, which does nothing where it is there. */
static void lose(struct pull *p, uint64_t when_usec)
{
    p->asked = 0;
    p->made = false;
    p->expires_usec = when_usec;
}

/* The server says that a request is over: no job has come (404, 408), or there is no such consumer, or too many nodes
 * wait for its jobs. */
static void request_over(struct in *i, const char *subject, int status)
{
    uint32_t n, serial;

    if (sscanf(subject + strlen(bus_inbox(i->options.bus)), ".p.%u.%u", &n, &serial) != 2 || n >= i->n_pulls ||
        i->pulls[n].serial != serial)
        return;
    struct pull *p = &i->pulls[n];
    if (status == 404 || status == 408)
        p->asked = 0;
    else
        lose(p, clock_monotonic_usec() + MAKE_USEC);
}

static void on_pulled(natsMsg *msg, void *context)
{
    struct in *i = context;
    struct letter_receipt receipt;
    const char *reply = natsMsg_GetReply(msg);

    /* A job is one whatever its headers say: only the server's own messages have no receipt. */
    if (reply && letter_get_receipt(reply, &receipt)) {
        struct pull *p = pull_of(i, receipt.consumer);

        if (p) {
            p->asked -= p->asked > 0;
            p->had_usec = clock_monotonic_usec();
            if (p->is_clean)
                p->clean_usec = p->had_usec + QUIET_USEC;
        }
        guests_take(i->guests, msg, &receipt);
    } else if (bus_status(msg) != 0) {
        request_over(i, natsMsg_GetSubject(msg), bus_status(msg));
        refill(i);
    }
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
        n += i->pulls[p].parcels || (idle_only && i->pulls[p].busy) ? 0 : i->pulls[p].asked;
    return n;
}

/* Those that had jobs lately share what is left. */
static void refill_busy(struct in *i, uint64_t now)
{
    uint32_t used = (uint32_t)guests_count(i->guests).held + count_asked(i, false), n_busy = 0;

    for (uint32_t p = 0; p < i->n_pulls; p++) {
        struct pull *one = &i->pulls[p];

        one->busy = one->had_usec && now - one->had_usec < BUSY_USEC;
        n_busy += one->made && !one->asked && one->busy && !one->parcels;
    }
    for (uint32_t p = 0; p < i->n_pulls && n_busy > 0; p++) {
        struct pull *one = &i->pulls[p];
        uint32_t most = i->options.held + (one->class == CLASS_HI ? HI_RESERVE : 0);

        if (!one->made || one->asked || !one->busy || one->parcels)
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
    uint32_t used = (uint32_t)guests_count(i->guests).held + count_asked(i, false), idle = count_asked(i, true);
    uint32_t most = i->options.held, most_idle = MAX(most - most / 4, 1u);
    uint64_t expires = i->n_pulls / 2 > most_idle ? TURN_USEC : EXPIRES_USEC;

    for (uint32_t n = 0; n < i->n_pulls && used < most && idle < most_idle; n++) {
        struct pull *one = &i->pulls[i->next_pull++ % i->n_pulls];

        if (!one->made || one->asked || one->busy || one->parcels)
            continue;
        ask(i, one, 1, expires);
        used += one->asked;
        idle += one->asked;
    }
}

/* How many jobs a parcel has is known when it is here. So as long as there is room for a job, each consumer is asked for
 * one parcel. */
static void refill_parcels(struct in *i)
{
    for (uint32_t p = 0; p < i->n_pulls && guests_count(i->guests).held < i->options.held; p++)
        if (i->pulls[p].parcels && i->pulls[p].made && !i->pulls[p].asked)
            ask(i, &i->pulls[p], 1, EXPIRES_USEC);
}

static void refill(struct in *i)
{
    if (i->leaving || !i->connected || !bus_is_up(i->options.bus))
        return;
    refill_parcels(i);
    refill_busy(i, clock_monotonic_usec());
    refill_idle(i);
}

/* What its consumer hands out. */
static void filter(const struct pull *p, char ret[static LETTER_SUBJECT])
{
    snprintf(ret, LETTER_SUBJECT, "wsd.job.*.%s.%s%s", letter_classes[p->class], p->plugin, p->parcels ? ".*" : "");
}

static uint64_t number_in(const json_t *j, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(j, name));
}

/* What a killed server has left is put right. The message says how its consumer is. */
static void look(struct pull *p, natsMsg *msg)
{
    json_error_t error;
    char subjects[LETTER_SUBJECT];
    json_t *j = json_loadb(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), 0, &error);
    const struct sweep_look l = {.floor = number_in(json_object_get(j, "ack_floor"), "stream_seq"),
                                 .delivered = number_in(json_object_get(j, "delivered"), "stream_seq"),
                                 .held = number_in(j, "num_ack_pending"),
                                 .redelivered = number_in(j, "num_redelivered")};

    const bool is_idle = l.held == 0 && number_in(j, "num_pending") == 0;

    filter(p, subjects);
    p->is_clean = is_idle;
    p->clean_usec = is_idle ? UINT64_MAX : clock_monotonic_usec() + CLEAN_USEC;
    renew_look(&p->renew, subjects, l.delivered, is_idle);
    sweep_look(&p->sweep, &l);
    json_decref(j);
}

/* Whether it fits its stream. */
static void renewed(void *context, enum renewal what)
{
    struct pull *p = context;

    if (what == RENEW_GONE) {
        sweep_reset(&p->sweep);
        lose(p, clock_monotonic_usec());
    } else if (what == RENEW_AGAIN) {
        p->is_clean = false;
        p->clean_usec = clock_monotonic_usec() + CLEAN_USEC;
    }
}

static void made(struct bus_question *q, natsMsg *msg)
{
    struct pull *p = container_of(q, struct pull, question);

    if (!msg || bus_status(msg) != 0 || bus_says(msg, "\"error\":")) {
        if (p->made)
            p->clean_usec = clock_monotonic_usec() + CLEAN_USEC;
        else
            p->expires_usec = clock_monotonic_usec() + MAKE_USEC;
        if (msg && natsMsg_GetDataLength(msg) > 0)
            log_warning("wsd-fleet: consumer %s: %.*s", p->consumer, MIN(natsMsg_GetDataLength(msg), 200),
                        natsMsg_GetData(msg));
        return;
    }
    if (!p->made)
        sweep_reset(&p->sweep);
    p->made = true;
    look(p, msg);
    refill(p->in);
}

/* Makes the consumer, which may be there. */
static void make(struct pull *p)
{
    char subject[BUS_SUBJECT], request[640], subjects[LETTER_SUBJECT];
    const struct in *i = p->in;

    filter(p, subjects);
    snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.DURABLE.CREATE." STREAM_JOBS ".%s", p->consumer);
    int n = snprintf(
        request, sizeof(request),
        "{\"stream_name\":\"" STREAM_JOBS "\",\"config\":{\"durable_name\":\"%s\",\"ack_policy\":\"explicit\","
        "\"ack_wait\":%" PRIu64 ",\"max_deliver\":-1,\"filter_subject\":\"%s\","
        "\"max_ack_pending\":65536,\"max_waiting\":4096,\"deliver_policy\":\"all\",\"replay_policy\":\"instant\"}}",
        p->consumer, i->options.ack_usec * 1000, subjects);
    if (!p->made)
        p->expires_usec = UINT64_MAX;
    bus_ask(i->options.bus, &p->question, subject, NULL, request, (size_t)n);
}

static int add_pulls(struct in *i, const char *plugin)
{
    for (uint32_t p = 0; p < i->n_pulls; p++)
        if (strcmp(i->pulls[p].plugin, plugin) == 0)
            return 0;
    if (i->n_pulls == PULLS_MAX) {
        log_warning("wsd-fleet: %s: jobs are taken for %u plugins, as many as may be: name some by --plugins", plugin,
                    PLUGINS_MAX);
        return 0;
    }
    char *name = strdup(plugin);
    if (!name)
        return -ENOMEM;
    for (unsigned n = 0; n < PULLS_EACH; n++) {
        struct pull *p = &i->pulls[i->n_pulls++];

        *p = (struct pull){.in = i, .class = n / 2, .parcels = n % 2, .plugin = name, .question.answered = made};
        snprintf(p->consumer, sizeof(p->consumer), p->parcels ? "%s-parcels_%s" : "%s_%s", letter_classes[p->class],
                 plugin);
        p->sweep = (struct sweep){.bus = i->options.bus, .consumer = p->consumer};
        p->renew = (struct renew){.bus = i->options.bus, .consumer = p->consumer, .context = p, .told = renewed};
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
    guests_tick(i->guests, now, is_time);
    for (uint32_t p = 0; p < i->n_pulls && bus_is_up(i->options.bus); p++) {
        struct pull *one = &i->pulls[p];

        if ((!one->made && now >= one->expires_usec) ||
            (one->made && !one->question.bus && !renew_looks(&one->renew) && now >= one->clean_usec))
            make(one);
        else if (one->made && one->asked && now >= one->expires_usec)
            lose(one, now); /* the server has said nothing of it */
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

static void on_connected(bool up, void *context)
{
    struct in *i = context;

    i->connected = up;
    i->has_learnt = false;
}

static void on_left(void *context)
{
    struct in *i = context;

    if (i->leaving && !guests_are_here(i->guests))
        i->options.ended(i->options.context);
    else
        event_active(i->room, EV_TIMEOUT, 1);
}

static void on_room(evutil_socket_t fd, short what, void *userdata)
{
    refill(userdata);
}

void in_leave(struct in *i)
{
    i->leaving = true;
    guests_leave(i->guests);
    if (!guests_are_here(i->guests))
        i->options.ended(i->options.context);
}

struct in_counters in_count(const struct in *i)
{
    return guests_count(i->guests);
}

const char *in_plugin(const struct in *i, uint32_t n)
{
    return n < i->n_pulls / PULLS_EACH ? i->pulls[n * PULLS_EACH].plugin : NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

int in_new(struct in **ret_in, const struct in_options *options)
{
    const struct timeval tick = {.tv_usec = TICK_USEC};
    char subject[BUS_SUBJECT];
    struct in *i = calloc(1, sizeof(*i));

    if (!i)
        return -ENOMEM;
    const struct guests_options held = {.base = options->base,
                                        .bus = options->bus,
                                        .socket = options->socket,
                                        .node = options->node,
                                        .run_as = options->run_as,
                                        .may_run_twice = may_run_twice,
                                        .together = together,
                                        .connected = on_connected,
                                        .left = on_left,
                                        .context = i};
    i->options = *options;
    i->tick = event_new(options->base, -1, EV_PERSIST, on_tick, i);
    i->pulls = calloc(PULLS_MAX, sizeof(*i->pulls));
    i->room = evtimer_new(options->base, on_room, i);
    int r = i->tick && i->room && i->pulls ? guests_new(&i->guests, &held) : -ENOMEM;
    snprintf(subject, sizeof(subject), "%s.p.>", bus_inbox(options->bus));
    if (r == 0)
        r = bus_subscribe(options->bus, subject, on_pulled, i);
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
    guests_free(i->guests);
    for (uint32_t p = 0; p < i->n_pulls; p++) {
        bus_forget(&i->pulls[p].question);
        sweep_reset(&i->pulls[p].sweep);
        renew_reset(&i->pulls[p].renew);
        if (p % PULLS_EACH == 0)
            free((char *)(uintptr_t)i->pulls[p].plugin);
    }
    for (size_t b = 0; b < i->functions.n_buckets; b++)
        for (struct hash_link *l = i->functions.buckets[b], *next; l; l = next) {
            next = l->next;
            free(container_of(l, struct known, by_name));
        }
    hash_deinit(&i->functions);
    if (i->tick)
        event_free(i->tick);
    if (i->room)
        event_free(i->room);
    free(i->pulls);
    free(i);
    return NULL;
}
