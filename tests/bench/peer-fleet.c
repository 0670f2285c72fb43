/* SPDX-License-Identifier: Apache-2.0
 *
 * peer-fleet.c: the bare loop of JetStream by libnats: what the fleet's protocol costs without wsd.
 *
 * Usage:
 *     peer-fleet rate|one SERVERS NODES stored|live WSD-FLEET
 *     peer-fleet load URL
 *
 * A sender publishes messages as large as those of wsd-fleet, into the same streams. Each node, a process, pulls them.
 * stored: as wsd-fleet does: the node publishes an end, and acknowledges the message when the end is stored.
 * live: it tells the sender without the stream, and acknowledges at once.
 * rate: many are in flight. one: the next is sent when the end of the one before has come. load: a sender and a node of
 * FLEET_RATE jobs a second, until it is killed; the streams are there. */
#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>

#include "fleet.h"

#define CONSUMER "norm_bare"
#define SUBJECT  "wsd.job.00.norm.bare"

static natsConnection *connection;
static char inbox[64], session[24];
static bool is_stored;

static void must(natsStatus s, const char *what)
{
    if (s != NATS_OK) {
        fprintf(stderr, "%s: %s\n", what, natsStatus_GetText(s));
        give_up(what);
    }
}

static void subscribe(const char *subject, natsMsgHandler handler)
{
    natsSubscription *s;

    must(natsConnection_Subscribe(&s, connection, subject, handler, NULL), "subscribe");
    must(natsSubscription_SetPendingLimits(s, -1, -1), "limits");
}

/* asap: each message is written at once, which is faster for few and slower for many. */
static void open_connection(bool asap)
{
    char list[sizeof(fleet_urls)];
    const char *urls[FLEET_SERVERS_MAX];
    natsOptions *o;
    natsInbox *name;
    int n = 0;

    snprintf(list, sizeof(list), "%s", fleet_urls);
    for (char *at = strtok(list, ","); at; at = strtok(NULL, ","))
        urls[n++] = at;
    must(natsOptions_Create(&o), "options");
    must(natsOptions_SetServers(o, urls, n), "URLs");
    must(natsOptions_SetSendAsap(o, asap), "options");
    must(natsConnection_Connect(&connection, o), "connect");
    must(natsInbox_Create(&name), "inbox");
    snprintf(inbox, sizeof(inbox), "%s", name);
    natsInbox_Destroy(name);
    natsOptions_Destroy(o);
}

static void publish(const char *subject, const char *reply, const char *id, const void *data, size_t size)
{
    natsMsg *msg;

    must(natsMsg_Create(&msg, subject, reply, data, (int)size), "message");
    if (id)
        must(natsMsgHeader_Set(msg, "Nats-Msg-Id", id), "header");
    must(natsConnection_PublishMsg(connection, msg), "publish");
    natsMsg_Destroy(msg);
}

static void make_consumer(void)
{
    static const char request[] =
        "{\"stream_name\":\"WSD_JOBS\",\"config\":{\"durable_name\":\"" CONSUMER
        "\",\"ack_policy\":\"explicit\",\"ack_wait\":5000000000,\"max_deliver\":-1,\"filter_subject\":\"" SUBJECT
        "\",\"max_ack_pending\":65536,\"max_waiting\":4096,\"deliver_policy\":\"all\",\"replay_policy\":\"instant\"}}";
    natsMsg *msg;

    for (int i = 0;; i++) { /* a cluster may still choose its leader */
        natsStatus s = natsConnection_RequestString(
            &msg, connection, "$JS.API.CONSUMER.DURABLE.CREATE.WSD_JOBS." CONSUMER, request, 2000);
        bool made = s == NATS_OK && !memmem(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), "\"error\"", 7);

        if (s == NATS_OK)
            natsMsg_Destroy(msg);
        if (made)
            return;
        if (i == 100)
            give_up("no consumer");
        usleep(100000);
    }
}

/* --- a node ------------------------------------------------------------------------------------------------------- */

static struct {
    char receipt[128];
} held[FLEET_HELD];
static unsigned free_slots[FLEET_HELD], n_free, n_asked;

static void ask(void)
{
    char reply[96], request[64];
    int n;

    if (n_free - n_asked < FLEET_HELD / 2)
        return;
    n = snprintf(request, sizeof(request), "{\"batch\":%u,\"expires\":30000000000}", n_free - n_asked);
    n_asked = n_free;
    snprintf(reply, sizeof(reply), "%s.j", inbox);
    publish("$JS.API.CONSUMER.MSG.NEXT.WSD_JOBS." CONSUMER, reply, NULL, request, (size_t)n);
}

static void take(natsMsg *msg)
{
    const char *id = natsMsg_GetData(msg); /* ends with a NUL */
    unsigned slot = free_slots[--n_free];
    char subject[96], name[48], reply[96];

    n_asked--;
    snprintf(held[slot].receipt, sizeof(held[slot].receipt), "%s", natsMsg_GetReply(msg));
    snprintf(subject, sizeof(subject), "%s.%s", is_stored ? "wsd.res.bare" : "bare.end", id);
    if (is_stored) {
        snprintf(name, sizeof(name), "end-%s", id);
        snprintf(reply, sizeof(reply), "%s.a.%u", inbox, slot);
        publish(subject, reply, name, natsMsg_GetData(msg), FLEET_LETTER);
        return;
    }
    publish(subject, NULL, NULL, id, FLEET_LETTER);
    publish(held[slot].receipt, NULL, NULL, "+ACK", 4);
    free_slots[n_free++] = slot;
}

static void on_node(natsConnection *nc, natsSubscription *s, natsMsg *msg, void *closure)
{
    unsigned slot;

    if (sscanf(natsMsg_GetSubject(msg) + strlen(inbox), ".a.%u", &slot) == 1) {
        publish(held[slot].receipt, NULL, NULL, "+ACK", 4);
        free_slots[n_free++] = slot;
    } else if (natsMsg_GetDataLength(msg) == FLEET_LETTER) {
        take(msg);
    } else { /* the request is over */
        n_asked = 0;
    }
    ask();
    natsMsg_Destroy(msg);
}

static void node(bool asap)
{
    char subject[80];

    if (fork_server() != 0)
        return;
    open_connection(asap);
    for (unsigned i = 0; i < FLEET_HELD; i++)
        free_slots[n_free++] = i;
    snprintf(subject, sizeof(subject), "%s.>", inbox);
    subscribe(subject, on_node);
    must(natsConnection_Flush(connection), "flush");
    make_consumer(); /* a request before that has no answer */
    ask();
    for (;;)
        pause();
}

/* --- the sender --------------------------------------------------------------------------------------------------- */

static atomic_ullong n_sent, n_ended;
static double latencies[FLEET_CALLS];
static uint64_t sent_nsec;
static bool one_by_one, paced;

static void send_one(void)
{
    char letter[FLEET_LETTER] = {0}, reply[80];

    snprintf(letter, sizeof(letter), "%s-%llu", session, atomic_fetch_add(&n_sent, 1));
    snprintf(reply, sizeof(reply), "%s.p", inbox);
    sent_nsec = now_nsec();
    publish(SUBJECT, reply, letter, letter, sizeof(letter));
}

static void on_end(natsConnection *nc, natsSubscription *s, natsMsg *msg, void *closure)
{
    unsigned long long n = atomic_load(&n_ended);

    if (one_by_one && n >= FLEET_CALLS / 10 && n < FLEET_CALLS / 10 + FLEET_CALLS)
        latencies[n - FLEET_CALLS / 10] = (double)(now_nsec() - sent_nsec) / 1e3;
    atomic_store(&n_ended, n + 1);
    natsMsg_Destroy(msg);
    if (!paced)
        send_one();
}

static void on_puback(natsConnection *nc, natsSubscription *s, natsMsg *msg, void *closure)
{
    natsMsg_Destroy(msg);
}

static void open_sender(bool asap, bool stored)
{
    char subject[80];

    is_stored = stored;
    snprintf(session, sizeof(session), "%x%llx", (unsigned)getpid(), (unsigned long long)now_nsec());
    open_connection(asap);
    snprintf(subject, sizeof(subject), "%s.p", inbox);
    subscribe(subject, on_puback);
    subscribe(stored ? "wsd.res.bare.>" : "bare.end.>", on_end);
    must(natsConnection_Flush(connection), "flush");
}

static void until_ended(unsigned long long n)
{
    while (atomic_load(&n_ended) < n)
        usleep(1000);
}

static void measure_rate(const char *params)
{
    char cpu[96];

    for (unsigned i = 0; i < FLEET_FLIGHT; i++)
        send_one();
    until_ended(1);
    usleep(FLEET_WARM_NSEC / 1000);
    uint64_t begin = now_nsec(), used = servers_sum(1);
    unsigned long long from = atomic_load(&n_ended);
    usleep(FLEET_NSEC / 1000);
    double n = (double)(atomic_load(&n_ended) - from);
    say(params, "us/job", (double)(now_nsec() - begin) / 1e3 / n);
    snprintf(cpu, sizeof(cpu), "%s,cpu=servers", params);
    say(cpu, "us/job", (double)(servers_sum(1) - used) / 1e3 / n);
}

static void measure_one(const char *params)
{
    char which[96];

    one_by_one = true;
    send_one();
    until_ended(FLEET_CALLS / 10 + FLEET_CALLS);
    snprintf(which, sizeof(which), "%s,quantile=p50", params);
    say(which, "us", quantile(latencies, FLEET_CALLS, 0.5));
    snprintf(which, sizeof(which), "%s,quantile=p99", params);
    say(which, "us", quantile(latencies, FLEET_CALLS, 0.99));
}

_Noreturn static void load(const char *url)
{
    snprintf(fleet_urls, sizeof(fleet_urls), "%s", url);
    is_stored = paced = true;
    node(true);
    open_sender(true, true);
    for (uint64_t begin = now_nsec(), n = 0;; usleep(1000))
        for (; n < (now_nsec() - begin) * FLEET_RATE / 1000000000u; n++)
            send_one();
}

int main(int argc, char **argv)
{
    char params[80];

    if (argc == 3 && strcmp(argv[1], "load") == 0)
        load(argv[2]);
    if (argc != 6) {
        fputs("usage: peer-fleet rate|one SERVERS NODES stored|live WSD-FLEET, or peer-fleet load URL\n", stderr);
        return 64;
    }
    unsigned n_servers_nats = (unsigned)atoi(argv[2]), n_nodes = (unsigned)atoi(argv[3]);
    bool one = strcmp(argv[1], "one") == 0;

    start_nats(n_servers_nats, argv[5]);
    is_stored = strcmp(argv[4], "stored") == 0;
    for (unsigned i = 0; i < n_nodes; i++)
        node(one);
    open_sender(one, is_stored);
    snprintf(params, sizeof(params), "what=%s,servers=%u,nodes=%u,ends=%s", argv[1], n_servers_nats, n_nodes, argv[4]);
    if (one)
        measure_one(params);
    else
        measure_rate(params);
    end_servers();
    remove_fleet_dir();
    return 0;
}
