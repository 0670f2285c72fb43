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
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/complain.h"
#include "fleet/letter.h"

#define ANSWER_MSEC  5000
#define CONNECT_MSEC 5000

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

static void show_consumer(const json_t *c, bool json, bool first)
{
    const char *name = json_string_value(json_object_get(c, "name"));
    json_int_t waiting = json_integer_value(json_object_get(c, "num_pending")),
               held = json_integer_value(json_object_get(c, "num_ack_pending")),
               again = json_integer_value(json_object_get(c, "num_redelivered")),
               nodes = json_integer_value(json_object_get(c, "num_waiting"));
    const char *plugin = name ? strchr(name, '_') : NULL;

    if (!plugin || !letter_is_name(plugin + 1, strcspn(plugin + 1, "+"), CODEC_NAME_MAX) ||
        (!json && waiting + held + again == 0))
        return;
    if (json)
        printf("%s{\"class\":\"%.*s\",\"plugin\":\"%s\",\"waiting\":%" JSON_INTEGER_FORMAT
               ",\"held\":%" JSON_INTEGER_FORMAT ",\"redelivered\":%" JSON_INTEGER_FORMAT
               ",\"requests\":%" JSON_INTEGER_FORMAT "}",
               first ? "" : ",", (int)(plugin - name), name, plugin + 1, waiting, held, again, nodes);
    else
        printf("%-5.*s %-20s %10" JSON_INTEGER_FORMAT " waiting %8" JSON_INTEGER_FORMAT " held %8" JSON_INTEGER_FORMAT
               " redelivered\n",
               (int)(plugin - name), name, plugin + 1, waiting, held, again);
}

static int show_consumers(natsConnection *nc, bool json)
{
    char request[64];
    json_int_t total = 1;

    for (json_int_t at = 0; at < total;) {
        snprintf(request, sizeof(request), "{\"offset\":%" JSON_INTEGER_FORMAT "}", at);
        json_t *j = ask(nc, "$JS.API.CONSUMER.LIST." STREAM_JOBS, request), *list;

        if (!j || why(j)) {
            json_decref(j);
            return CODE_NO_DAEMON;
        }
        list = json_object_get(j, "consumers");
        for (size_t i = 0; i < json_array_size(list); i++)
            show_consumer(json_array_get(list, i), json, at + (json_int_t)i == 0);
        total = json_integer_value(json_object_get(j, "total"));
        at += (json_int_t)json_array_size(list);
        total = json_array_size(list) ? total : at;
        json_decref(j);
    }
    return 0;
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
        printf("]}\n");
    natsConnection_Destroy(nc);
    return r;
}
