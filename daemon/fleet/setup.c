/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.c: the streams of a fleet.
 * Owns nothing.
 * Keeps: a stream that is there is left as it is, and what differs is said. The API of JetStream is spoken in its own
 * JSON, since libnats 3.4 has not all fields. */
#include "fleet/setup.h"

#include <inttypes.h>
#include <jansson.h>
#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/complain.h"
#include "fleet/letter.h"
#include "fleet/roll.h"

#define ANSWER_MSEC  5000
#define CONNECT_MSEC 5000
#define FIRST_USEC   1000000u /* for the first machine to answer, */
#define QUIET_USEC   300000u  /* for a further one, */
#define ROLL_USEC    5000000u /* and for all of them */
#define NODES_MAX    1024u    /* that are shown */

#define PLAIN_MAX     96u  /* of a name or a version */
#define CONSUMER_MAX  128u /* of the name of a consumer (in.c) */
#define PLAIN_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@+~-"

static int no_server(const struct login *login, natsStatus s)
{
    const char *words = nats_GetLastError(NULL);

    words = words && *words ? words : natsStatus_GetText(s);
    complain("%s: %s: %s", login->servers, words, login_advice(login, words));
    return CODE_NO_DAEMON;
}

static int open_server(const struct login *login, natsConnection **ret)
{
    natsOptions *o = NULL;
    natsStatus s = natsOptions_Create(&o);

    s = s == NATS_OK ? login_apply(login, o) : s;
    s = s == NATS_OK ? natsOptions_SetTimeout(o, CONNECT_MSEC) : s;
    s = s == NATS_OK ? natsOptions_SetAllowReconnect(o, false) : s;
    s = s == NATS_OK ? natsConnection_Connect(ret, o) : s;
    natsOptions_Destroy(o);
    return s == NATS_OK ? 0 : no_server(login, s);
}

/* The answer of the API; NULL: there is none, and that was said. */
static json_t *ask(natsConnection *nc, const char *subject, const char *request)
{
    natsMsg *msg = NULL;
    json_error_t error;
    json_t *j = NULL;
    natsStatus s = natsConnection_RequestString(&msg, nc, subject, request, ANSWER_MSEC);

    if (s == NATS_OK)
        j = json_loadb(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), 0, &error);
    if (s == NATS_NO_RESPONDERS)
        complain("the server has no JetStream: start it with -js");
    else if (s != NATS_OK)
        complain("%s: %s", subject, natsStatus_GetText(s));
    else if (!j)
        complain("%s: no answer that can be read", subject);
    natsMsg_Destroy(msg);
    return j;
}

static const char *why(const json_t *j)
{
    const json_t *e = json_object_get(j, "error");
    const char *words = e ? json_string_value(json_object_get(e, "description")) : NULL;

    return words ? words : e ? "refused" : NULL;
}

/* Makes a stream. 0, or an exit status. */
static int make(natsConnection *nc, const char *name, const char *rest, const struct setup_options *o)
{
    char subject[128], request[512];

    snprintf(subject, sizeof(subject), "$JS.API.STREAM.CREATE.%s", name);
    snprintf(request, sizeof(request), "{\"name\":\"%s\",\"storage\":\"file\",\"num_replicas\":%u,%s}", name,
             o->replicas, rest);
    json_t *j = ask(nc, subject, request);
    if (!j)
        return CODE_NO_DAEMON;
    const char *error = why(j);
    bool is_there = error && strstr(error, "already in use");
    if (!error)
        printf("%s: made, kept by %u server%s\n", name, o->replicas, o->replicas > 1 ? "s" : "");
    else if (is_there)
        printf("%s: is there with other settings, and stays as it is\n", name);
    else
        complain("%s: %s", name, error);
    json_decref(j);
    return !error || is_there ? 0 : CODE_NO_DAEMON;
}

int setup_init(const struct setup_options *o)
{
    natsConnection *nc = NULL;
    char jobs[256], results[256], parts[256];
    int r = open_server(o->login, &nc);

    snprintf(jobs, sizeof(jobs),
             "\"subjects\":[\"wsd.job.>\"],\"retention\":\"workqueue\",\"discard\":\"new\",\"max_msgs\":%" PRIu64
             ",\"duplicate_window\":120000000000",
             o->jobs_max);
    snprintf(results, sizeof(results),
             "\"subjects\":[\"wsd.res.>\"],\"retention\":\"limits\",\"max_age\":%llu,\"allow_direct\":true,"
             "\"duplicate_window\":120000000000",
             (unsigned long long)o->kept_usec * 1000);
    snprintf(parts, sizeof(parts),
             "\"subjects\":[\"wsd.part.>\"],\"retention\":\"limits\",\"max_age\":%llu,"
             "\"max_msgs_per_subject\":1,\"allow_direct\":true",
             (unsigned long long)MAX(o->kept_usec, PARTS_KEPT_USEC) * 1000);
    r = r ? r : make(nc, STREAM_JOBS, jobs, o);
    r = r ? r : make(nc, STREAM_RESULTS, results, o);
    r = r ? r : make(nc, STREAM_PARTS, parts, o);
    r = r ? r
          : make(nc, STREAM_DEAD, "\"subjects\":[\"wsd.dead.>\"],\"retention\":\"limits\",\"max_age\":604800000000000",
                 o);
    natsConnection_Destroy(nc);
    return r;
}

static int show_stream(natsConnection *nc, const char *name, const char *what, bool json, bool first)
{
    char subject[128];

    snprintf(subject, sizeof(subject), "$JS.API.STREAM.INFO.%s", name);
    json_t *j = ask(nc, subject, "");
    const char *error = j ? why(j) : "";
    if (error) {
        if (j)
            complain("%s: %s: `wsctl fleet init` makes the streams", name, error);
        json_decref(j);
        return CODE_NO_DAEMON;
    }
    const json_t *state = json_object_get(j, "state");
    json_int_t n = json_integer_value(json_object_get(state, "messages"));
    json_int_t bytes = json_integer_value(json_object_get(state, "bytes"));
    if (json)
        printf("%s\"%s\":{\"messages\":%" JSON_INTEGER_FORMAT ",\"bytes\":%" JSON_INTEGER_FORMAT "}", first ? "" : ",",
               what, n, bytes);
    else
        printf("%-8s %10" JSON_INTEGER_FORMAT " %12" JSON_INTEGER_FORMAT " bytes\n", what, n, bytes);
    json_decref(j);
    return 0;
}

/* How long ago that was, by this machine's clock, in microseconds. time: as JetStream writes it. */
static uint64_t age_of(const char *time)
{
    struct tm t = {0};
    const char *rest = time ? strptime(time, "%Y-%m-%dT%H:%M:%S", &t) : NULL;
    double fraction = rest && *rest == '.' ? strtod(rest, NULL) : 0, then, now;
    struct timespec n;

    if (!rest)
        return 0;
    clock_gettime(CLOCK_REALTIME, &n);
    then = (double)timegm(&t) + fraction;
    now = (double)n.tv_sec + (double)n.tv_nsec / 1e9;
    return now > then ? (uint64_t)((now - then) * 1e6) : 0;
}

/* Of the jobs of a consumer that wait, the age of the oldest; 0: none waits now. */
static uint64_t oldest_of(natsConnection *nc, const json_t *c)
{
    json_int_t delivered = json_integer_value(json_object_get(json_object_get(c, "delivered"), "stream_seq"));
    const char *subjects = json_string_value(json_object_get(json_object_get(c, "config"), "filter_subject"));
    char request[512];

    if (!subjects || strlen(subjects) > sizeof(request) / 2)
        return 0;
    snprintf(request, sizeof(request), "{\"seq\":%" JSON_INTEGER_FORMAT ",\"next_by_subj\":\"%s\"}", delivered + 1,
             subjects);
    json_t *j = ask(nc, "$JS.API.STREAM.MSG.GET." STREAM_JOBS, request);
    uint64_t age = j ? age_of(json_string_value(json_object_get(json_object_get(j, "message"), "time"))) : 0;
    json_decref(j);
    return age;
}

/* Whether it is a name, or a version: nothing that a terminal or a page takes for more. */
static bool is_plain_text(const char *text, size_t most)
{
    size_t n = text ? strlen(text) : 0;

    return n && n <= most && strspn(text, PLAIN_LETTERS) == n;
}

static bool is_plain(const json_t *j)
{
    return is_plain_text(json_string_value(j), PLAIN_MAX);
}

/* n: of those shown before. */
static void show_consumer(natsConnection *nc, const json_t *c, bool json, unsigned *n)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    json_int_t waiting = json_integer_value(json_object_get(c, "num_pending")),
               held = json_integer_value(json_object_get(c, "num_ack_pending")),
               again = json_integer_value(json_object_get(c, "num_redelivered")),
               nodes = json_integer_value(json_object_get(c, "num_waiting"));
    /* others may make consumers, too */
    const char *plugin = is_plain_text(name, CONSUMER_MAX) ? strchr(name, '_') : NULL;

    if (!plugin || !letter_is_name(plugin + 1, strcspn(plugin + 1, "+"), CODEC_NAME_MAX) ||
        (!json && waiting + held + again == 0))
        return;
    uint64_t oldest = waiting ? oldest_of(nc, c) : 0;
    if (json)
        printf("%s{\"class\":\"%.*s\",\"plugin\":\"%s\",\"waiting\":%" JSON_INTEGER_FORMAT
               ",\"held\":%" JSON_INTEGER_FORMAT ",\"redelivered\":%" JSON_INTEGER_FORMAT
               ",\"requests\":%" JSON_INTEGER_FORMAT ",\"oldest_usec\":%" PRIu64 "}",
               *n ? "," : "", (int)(plugin - name), name, plugin + 1, waiting, held, again, nodes, oldest);
    else
        printf("%-5.*s %-20s %10" JSON_INTEGER_FORMAT " waiting, the oldest for %" PRIu64 " s %8" JSON_INTEGER_FORMAT
               " held %8" JSON_INTEGER_FORMAT " redelivered\n",
               (int)(plugin - name), name, plugin + 1, waiting, oldest / 1000000, held, again);
    ++*n;
}

static int show_consumers(natsConnection *nc, bool json)
{
    char request[64];
    json_int_t total = 1;
    unsigned n = 0;

    for (json_int_t at = 0; at < total;) {
        snprintf(request, sizeof(request), "{\"offset\":%" JSON_INTEGER_FORMAT "}", at);
        json_t *j = ask(nc, "$JS.API.CONSUMER.LIST." STREAM_JOBS, request), *list;

        if (!j || why(j)) {
            json_decref(j);
            return CODE_NO_DAEMON;
        }
        list = json_object_get(j, "consumers");
        for (size_t i = 0; i < json_array_size(list); i++)
            show_consumer(nc, json_array_get(list, i), json, &n);
        total = json_integer_value(json_object_get(j, "total"));
        at += (json_int_t)json_array_size(list);
        total = json_array_size(list) ? total : at;
        json_decref(j);
    }
    return 0;
}

/* --- the machines ------------------------------------------------------------------------------------------------- */

/* Copies a field that is such, and leaves any other. */
static void take_field(json_t *to, const json_t *from, const char *key, bool (*is)(const json_t *j))
{
    json_t *value = json_object_get(from, key);

    if (value && is(value))
        json_object_set(to, key, value);
}

static bool is_count(const json_t *j)
{
    return json_is_integer(j) && json_integer_value(j) >= 0;
}

static bool is_bool(const json_t *j)
{
    return json_is_boolean(j);
}

static bool is_names(const json_t *j)
{
    for (size_t i = 0; i < json_array_size(j); i++)
        if (!is_plain(json_array_get(j, i)))
            return false;
    return json_is_array(j) && json_array_size(j) <= ROLL_NAMES;
}

/* What an answer says as it should, and nothing else; NULL: it does not even say of which node it is. */
static json_t *clean_node(const json_t *answer)
{
    static const char *const counts[] = {"elsewhere", "plugins", "held", "most", "ended"};
    json_t *j = json_object();

    take_field(j, answer, "node", is_plain);
    take_field(j, answer, "version", is_plain);
    take_field(j, answer, "leaving", is_bool);
    take_field(j, answer, "takes", is_names);
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        take_field(j, answer, counts[i], is_count);
    if (json_object_get(j, "node") && json_object_get(j, "version"))
        return j;
    json_decref(j);
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    json_t *const *first = a, *const *second = b;

    return strcmp(json_string_value(json_object_get(*first, "node")),
                  json_string_value(json_object_get(*second, "node")));
}

static json_int_t number_of(const json_t *j, const char *key)
{
    return json_integer_value(json_object_get(j, key));
}

static void show_node(const json_t *j)
{
    const json_t *takes = json_object_get(j, "takes");
    size_t n = json_array_size(takes);

    printf("%-20s wsd-fleet %s%s", json_string_value(json_object_get(j, "node")),
           json_string_value(json_object_get(j, "version")),
           json_is_true(json_object_get(j, "leaving")) ? ", leaving" : "");
    if (takes) {
        printf(": holds %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " jobs, has done %" JSON_INTEGER_FORMAT
               ", takes",
               number_of(j, "held"), number_of(j, "most"), number_of(j, "ended"));
        for (size_t i = 0; i < n; i++)
            printf(" %s", json_string_value(json_array_get(takes, i)));
        if (number_of(j, "plugins") > (json_int_t)n)
            printf(" and %" JSON_INTEGER_FORMAT " more", number_of(j, "plugins") - (json_int_t)n);
        if (n == 0)
            printf(" none");
    }
    if (json_object_get(j, "elsewhere"))
        printf("%s %" JSON_INTEGER_FORMAT " of its own are elsewhere", takes ? ";" : ":", number_of(j, "elsewhere"));
    printf("\n");
}

static void show_nodes(json_t **nodes, size_t n, bool json)
{
    qsort(nodes, n, sizeof(*nodes), by_name);
    for (size_t i = 0; i < n; i++) {
        if (json) {
            printf("%s", i ? "," : "");
            json_dumpf(nodes[i], stdout, JSON_COMPACT);
        } else {
            show_node(nodes[i]);
        }
    }
}

/* The next answer that is one; NULL: none came in time, or no machine is there. */
static json_t *next_node(natsSubscription *answers, uint64_t until_usec, uint64_t patience_usec)
{
    uint64_t now = clock_monotonic_usec(), until = MIN(until_usec, now + patience_usec);
    natsMsg *msg = NULL;
    json_t *j = NULL;

    for (bool nobody = false; !j && !nobody && now < until; now = clock_monotonic_usec()) {
        if (natsSubscription_NextMsg(&msg, answers, (int64_t)(until - now) / 1000 + 1) != NATS_OK)
            return NULL;
        nobody = natsMsg_IsNoResponders(msg);
        json_t *answer =
            json_loadb(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), JSON_REJECT_DUPLICATES, NULL);
        j = answer ? clean_node(answer) : NULL;
        json_decref(answer);
        natsMsg_Destroy(msg);
    }
    return j;
}

/* Asks which machines are there. It is not known how many will answer: it is over when no more came for a while, or
 * after a longer one. */
static void call_roll(natsConnection *nc, bool json)
{
    char reply[128];
    natsInbox *unique = NULL;
    natsSubscription *answers = NULL;
    json_t **nodes = calloc(NODES_MAX, sizeof(*nodes)), *j;
    uint64_t until = clock_monotonic_usec() + ROLL_USEC;
    size_t n = 0;

    if (!nodes || natsInbox_Create(&unique) != NATS_OK) {
        free(nodes);
        return;
    }
    snprintf(reply, sizeof(reply), ROLL_SUBJECT ".%.64s", strrchr(unique, '.') + 1);
    natsInbox_Destroy(unique);
    if (natsConnection_SubscribeSync(&answers, nc, reply) == NATS_OK &&
        natsConnection_PublishRequestString(nc, ROLL_SUBJECT, reply, "") == NATS_OK)
        while (n < NODES_MAX && (j = next_node(answers, until, n ? QUIET_USEC : FIRST_USEC)))
            nodes[n++] = j;
    natsSubscription_Destroy(answers);
    show_nodes(nodes, n, json);
    while (n)
        json_decref(nodes[--n]);
    free(nodes);
}

int setup_status(const struct setup_options *o)
{
    natsConnection *nc = NULL;
    int r = open_server(o->login, &nc);

    if (r == 0 && o->json)
        printf("{");
    r = r ? r : show_stream(nc, STREAM_JOBS, "jobs", o->json, true);
    r = r ? r : show_stream(nc, STREAM_RESULTS, "results", o->json, false);
    r = r ? r : show_stream(nc, STREAM_PARTS, "parts", o->json, false);
    r = r ? r : show_stream(nc, STREAM_DEAD, "dead", o->json, false);
    if (r == 0 && o->json)
        printf(",\"classes\":[");
    r = r ? r : show_consumers(nc, o->json);
    if (r == 0 && o->json)
        printf("],\"nodes\":[");
    if (r == 0)
        call_roll(nc, o->json);
    if (r == 0 && o->json)
        printf("]}\n");
    natsConnection_Destroy(nc);
    return r;
}
