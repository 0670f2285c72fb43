/* SPDX-License-Identifier: Apache-2.0
 *
 * bus.c: the connection to the NATS servers.
 * Owns the connection, its subscriptions, and what has come and was not told yet.
 * Keeps: libnats' threads touch nothing but the list of what has come, under its lock. Everything else is the loop's. An
 * answer is told apart from one to an earlier question by its slot and generation, which its subject has.
 * Does not know jobs. */
#include "fleet/bus.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define TICK_USEC      100000u /* between two looks for answers that are overdue */
#define RECONNECT_MSEC 250
#define PING_MSEC      2000
#define PINGS_OUT      2
#define FLUSH_MSEC     1000

/* Statuses of answers that the servers make. */
#define NO_MESSAGE    404
#define NO_RESPONDERS 503 /* nothing answers to the subject: the stream has no leader, or its server has just begun */

enum came { CAME_MESSAGE, CAME_UP, CAME_DOWN, CAME_CLOSED };

/* What a thread of libnats has seen. */
struct news {
    struct list link;
    enum came what;
    const struct subscription *subscription;
    natsMsg *msg;
};

struct subscription {
    struct list link;
    struct bus *bus;
    natsSubscription *handle;
    void (*message)(natsMsg *msg, void *context);
    void *context;
};

struct slot {
    struct bus_question *question; /* NULL: free */
    uint32_t generation, next_free;
};

struct bus {
    struct bus_options options;
    natsConnection *connection;
    natsOptions *settings;
    pthread_mutex_t lock;
    struct list news; /* [lock] */
    bool told;        /* [lock] the loop was woken */
    bool closing;     /* [lock] what comes is not wanted */
    int fd;           /* eventfd that wakes it */
    struct event *event, *tick;
    struct list subscriptions;
    char inbox[64];
    struct slot *slots;
    uint32_t n_slots, free_slot; /* UINT32_MAX: none is free */
    struct list questions;       /* in no order */
    bool up;
    uint32_t n_connections;
    uint64_t n_looks;
    char why[256]; /* the first attempt to connect has failed; "": it has not */
};

/* --- from the threads of libnats ---------------------------------------------------------------------------------- */

static void put(struct bus *b, enum came what, const struct subscription *s, natsMsg *msg)
{
    struct news *n = calloc(1, sizeof(*n));
    const uint64_t one = 1;

    if (!n) { /* as if it had been lost on its way, which the protocol of the fleet bears */
        natsMsg_Destroy(msg);
        return;
    }
    *n = (struct news){.what = what, .subscription = s, .msg = msg};
    list_init(&n->link);
    pthread_mutex_lock(&b->lock);
    if (b->closing) {
        pthread_mutex_unlock(&b->lock);
        natsMsg_Destroy(msg);
        free(n);
        return;
    }
    list_push_back(&b->news, &n->link);
    bool first = !b->told;
    b->told = true;
    pthread_mutex_unlock(&b->lock);
    if (first && write(b->fd, &one, sizeof(one)) < 0)
        log_warning("wsd-fleet: eventfd: %s", strerror(errno));
}

static void on_message(natsConnection *nc, natsSubscription *handle, natsMsg *msg, void *closure)
{
    struct subscription *s = closure;

    put(s->bus, CAME_MESSAGE, s, msg);
}

static void on_up(natsConnection *nc, void *closure)
{
    put(closure, CAME_UP, NULL, NULL);
}

static void on_down(natsConnection *nc, void *closure)
{
    put(closure, CAME_DOWN, NULL, NULL);
}

static void on_closed(natsConnection *nc, void *closure)
{
    put(closure, CAME_CLOSED, NULL, NULL);
}

static void on_error(natsConnection *nc, natsSubscription *handle, natsStatus status, void *closure)
{
    const char *words = NULL;

    (void)natsConnection_GetLastError(nc, &words); /* such as the subject that is not permitted */
    log_warning("wsd-fleet: NATS: %s", words && *words ? words : natsStatus_GetText(status));
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void slot_release(struct bus *b, uint32_t slot)
{
    b->slots[slot].question = NULL;
    b->slots[slot].generation++;
    b->slots[slot].next_free = b->free_slot;
    b->free_slot = slot;
}

/* False: no memory. */
static bool slot_take(struct bus *b, struct bus_question *q)
{
    if (b->free_slot == UINT32_MAX) {
        uint32_t n = b->n_slots ? 2 * b->n_slots : 256;
        struct slot *more = realloc(b->slots, n * sizeof(*more));

        if (!more)
            return false;
        b->slots = more;
        for (uint32_t i = b->n_slots; i < n; i++) {
            b->slots[i] = (struct slot){.next_free = b->free_slot};
            b->free_slot = i;
        }
        b->n_slots = n;
    }
    q->slot = b->free_slot;
    b->free_slot = b->slots[q->slot].next_free;
    b->slots[q->slot].question = q;
    q->generation = b->slots[q->slot].generation;
    return true;
}

void bus_forget(struct bus_question *q)
{
    struct bus *b = TAKE(q->bus);

    if (!b)
        return;
    list_remove(&q->link);
    if (q->slot != UINT32_MAX)
        slot_release(b, q->slot);
}

static void answer(struct bus_question *q, natsMsg *msg)
{
    bus_forget(q);
    q->answered(q, msg);
}

struct header {
    const char *name, *value; /* value NULL: there is none */
};

/* headers: one of ours and one of the server's; NULL: none. */
static natsStatus publish(struct bus *b, const char *subject, const char *reply, const struct header *headers,
                          const void *data, size_t size)
{
    natsMsg *msg = NULL;
    natsStatus s = natsMsg_Create(&msg, subject, reply, data, (int)size);

    for (size_t i = 0; headers && i < 2; i++)
        if (s == NATS_OK && headers[i].value)
            s = natsMsgHeader_Set(msg, headers[i].name, headers[i].value);
    if (s == NATS_OK)
        s = natsConnection_PublishMsg(b->connection, msg);
    natsMsg_Destroy(msg);
    return s;
}

static void ask(struct bus *b, struct bus_question *q, const char *subject, const struct header *headers,
                const void *data, size_t size)
{
    char reply[BUS_SUBJECT];

    bus_forget(q);
    q->bus = b;
    q->slot = UINT32_MAX;
    q->due_usec = clock_monotonic_usec();
    list_init(&q->link);
    list_push_back(&b->questions, &q->link);
    if (!b->up || !slot_take(b, q))
        return; /* the next tick says so */
    snprintf(reply, sizeof(reply), "%s.q.%u.%u", b->inbox, q->slot, q->generation);
    if (publish(b, subject, reply, headers, data, size) == NATS_OK)
        q->due_usec += BUS_PATIENCE_USEC;
}

void bus_ask(struct bus *b, struct bus_question *q, const char *subject, const char *id, const void *data, size_t size)
{
    bus_ask_saying(b, q, subject, id, NULL, NULL, data, size);
}

void bus_ask_saying(struct bus *b, struct bus_question *q, const char *subject, const char *id, const char *header,
                    const char *value, const void *data, size_t size)
{
    const struct header headers[2] = {{"Nats-Msg-Id", id}, {header, value}};

    ask(b, q, subject, headers, data, size);
}

void bus_ask_behind(struct bus *b, struct bus_question *q, const char *subject, uint64_t number, const void *data,
                    size_t size)
{
    char text[24];
    const struct header headers[2] = {{"Nats-Expected-Last-Subject-Sequence", text}};

    snprintf(text, sizeof(text), "%" PRIu64, number);
    ask(b, q, subject, headers, data, size);
}

void bus_ask_last(struct bus *b, struct bus_question *q, const char *stream, const char *subject)
{
    char api[2 * BUS_SUBJECT];

    b->n_looks++;
    snprintf(api, sizeof(api), "$JS.API.DIRECT.GET.%s.%s", stream, subject);
    ask(b, q, api, NULL, NULL, 0);
}

bool bus_tell(struct bus *b, const char *subject, const char *reply, const void *data, size_t size)
{
    return b->up && publish(b, subject, reply, NULL, data, size) == NATS_OK;
}

static void on_answer(natsMsg *msg, void *context)
{
    struct bus *b = context;
    uint32_t slot, generation;
    const char *where = natsMsg_GetSubject(msg) + strlen(b->inbox);

    if (sscanf(where, ".q.%u.%u", &slot, &generation) == 2 && slot < b->n_slots && b->slots[slot].question &&
        b->slots[slot].generation == generation)
        answer(b->slots[slot].question, msg);
    natsMsg_Destroy(msg);
}

/* Those that are due before that. What they ask meanwhile is not. */
static void no_answer(struct bus *b, uint64_t before_usec)
{
    struct list due;

    list_init(&due);
    list_for_each_entry_safe (struct bus_question, q, after_q, &b->questions, link) {
        if (q->due_usec > before_usec)
            continue;
        list_remove(&q->link);
        list_push_back(&due, &q->link);
    }
    while (!list_empty(&due))
        answer(container_of(due.next, struct bus_question, link), NULL);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void on_tick(evutil_socket_t fd, short what, void *userdata)
{
    no_answer(userdata, clock_monotonic_usec());
}

static void set_state(struct bus *b, bool up)
{
    if (b->up == up)
        return;
    b->up = up;
    b->n_connections += up;
    if (!up)
        no_answer(b, UINT64_MAX);
    b->options.state(up, b->options.context);
}

static void tell(struct bus *b, const struct news *n)
{
    const char *error = NULL;

    switch (n->what) {
    case CAME_MESSAGE:
        n->subscription->message(n->msg, n->subscription->context);
        return;
    case CAME_UP:
    case CAME_DOWN:
        *b->why = 0; /* it is over */
        set_state(b, n->what == CAME_UP);
        return;
    case CAME_CLOSED:
        set_state(b, false);
        (void)natsConnection_GetLastError(b->connection, &error);
        b->options.closed(*b->why ? b->why : error ? error : "the connection is closed", b->options.context);
        return;
    }
}

static void on_news(evutil_socket_t fd, short what, void *userdata)
{
    struct bus *b = userdata;
    uint64_t n;
    struct list some;

    list_init(&some);
    if (read(b->fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
        log_warning("wsd-fleet: eventfd: %s", strerror(errno));
    pthread_mutex_lock(&b->lock);
    list_move_all(&some, &b->news);
    b->told = false;
    pthread_mutex_unlock(&b->lock);
    for (struct list *l; (l = list_pop_front(&some));) {
        struct news *one = container_of(l, struct news, link);

        tell(b, one);
        free(one);
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

int bus_subscribe(struct bus *b, const char *subject, void (*message)(natsMsg *msg, void *context), void *context)
{
    struct subscription *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    *s = (struct subscription){.bus = b, .message = message, .context = context};
    list_init(&s->link);
    natsStatus status = natsConnection_Subscribe(&s->handle, b->connection, subject, on_message, s);
    if (status == NATS_OK)
        status = natsSubscription_SetPendingLimits(s->handle, -1, -1);
    if (status == NATS_CONNECTION_CLOSED)
        status = NATS_OK; /* for ever: options.closed() is told why */
    if (status != NATS_OK) {
        natsSubscription_Destroy(s->handle);
        free(s);
        return status == NATS_NO_MEMORY ? -ENOMEM : -EINVAL;
    }
    list_push_back(&b->subscriptions, &s->link);
    return 0;
}

uint64_t bus_looks(const struct bus *b)
{
    return b->n_looks;
}

const char *bus_inbox(const struct bus *b)
{
    return b->inbox;
}

bool bus_is_up(const struct bus *b)
{
    return b->up;
}

uint32_t bus_connection(const struct bus *b)
{
    return b->n_connections;
}

int bus_status(natsMsg *msg)
{
    const char *status;

    return natsMsg_GetDataLength(msg) == 0 && natsMsgHeader_Get(msg, "Status", &status) == NATS_OK ? atoi(status) : 0;
}

enum bus_found bus_found(natsMsg *msg)
{
    int status = msg ? bus_status(msg) : NO_RESPONDERS;

    return status == 0 ? BUS_FOUND : status == NO_MESSAGE ? BUS_NONE : BUS_UNKNOWN;
}

bool bus_says(natsMsg *msg, const char *words)
{
    return memmem(natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg), words, strlen(words));
}

const char *bus_text(natsMsg *msg, const char *header)
{
    const char *text;

    return natsMsgHeader_Get(msg, header, &text) == NATS_OK ? text : "";
}

uint32_t bus_header(natsMsg *msg, const char *header)
{
    return (uint32_t)strtoul(bus_text(msg, header), NULL, 10);
}

bool bus_is_stored(natsMsg *msg)
{
    return msg && bus_status(msg) == 0 && bus_says(msg, "\"seq\":") && !bus_says(msg, "\"error\":"); /* "seq":0 */
}

uint64_t bus_sequence(natsMsg *msg)
{
    static const char name[] = "\"seq\":";
    char text[24];
    const char *data = natsMsg_GetData(msg), *end = data + natsMsg_GetDataLength(msg);
    const char *at = memmem(data, (size_t)(end - data), name, sizeof(name) - 1);

    if (at)
        snprintf(text, sizeof(text), "%.*s", (int)(end - at - (ptrdiff_t)sizeof(name) + 1), at + sizeof(name) - 1);
    return at ? strtoull(text, NULL, 10) : 0;
}

bool bus_is_outdated(natsMsg *msg)
{
    return bus_says(msg, "\"err_code\":10071,");
}

uint64_t bus_number(natsMsg *msg)
{
    const char *text;

    return natsMsgHeader_Get(msg, "Nats-Sequence", &text) == NATS_OK ? strtoull(text, NULL, 10) : 0;
}

static natsStatus set_all(struct bus *b)
{
    natsStatus s = natsOptions_Create(&b->settings);
    natsOptions *o = b->settings;

    s = s == NATS_OK ? login_apply(b->options.login, o) : s;
    s = s == NATS_OK ? natsOptions_SetName(o, b->options.name) : s;
    s = s == NATS_OK ? natsOptions_SetMaxReconnect(o, -1) : s;
    s = s == NATS_OK ? natsOptions_SetReconnectWait(o, RECONNECT_MSEC) : s;
    s = s == NATS_OK ? natsOptions_SetPingInterval(o, PING_MSEC) : s;
    s = s == NATS_OK ? natsOptions_SetMaxPingsOut(o, PINGS_OUT) : s;
    s = s == NATS_OK ? natsOptions_SetSendAsap(o, true) : s;
    s = s == NATS_OK ? natsOptions_SetNoEcho(o, false) : s;
    s = s == NATS_OK ? natsOptions_SetReconnectedCB(o, on_up, b) : s;
    s = s == NATS_OK ? natsOptions_SetDisconnectedCB(o, on_down, b) : s;
    s = s == NATS_OK ? natsOptions_SetClosedCB(o, on_closed, b) : s;
    return s == NATS_OK ? natsOptions_SetErrorHandler(o, on_error, b) : s;
}

/* What libnats has said last, and what to do about it. */
static void put_words(const struct bus *b, natsStatus s, char ret[static 256])
{
    const char *words = nats_GetLastError(NULL);

    words = words && *words ? words : natsStatus_GetText(s);
    snprintf(ret, 256, "%s: %s: %s", b->options.login->servers, words, login_advice(b->options.login, words));
}

static int fail(struct bus *b, natsStatus s, char ret_error[static 256])
{
    put_words(b, s, ret_error);
    bus_free(b);
    return s == NATS_NO_MEMORY ? -ENOMEM : s == NATS_INVALID_ARG ? -EINVAL : -EIO;
}

static int init_loop(struct bus *b)
{
    const struct timeval t = {.tv_usec = TICK_USEC};

    b->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    b->event = b->fd >= 0 ? event_new(b->options.base, b->fd, EV_READ | EV_PERSIST, on_news, b) : NULL;
    b->tick = event_new(b->options.base, -1, EV_PERSIST, on_tick, b);
    if (!b->event || !b->tick)
        return -ENOMEM;
    return event_add(b->event, NULL) < 0 || event_add(b->tick, &t) < 0 ? -ENOMEM : 0;
}

/* Goes on by itself where the first attempt fails, since libnats says of none but that one what was wrong. */
static natsStatus start_connecting(struct bus *b)
{
    natsStatus s = natsConnection_Connect(&b->connection, b->settings);

    if (s == NATS_OK) {
        put(b, CAME_UP, NULL, NULL);
        return NATS_OK;
    }
    put_words(b, s, b->why);
    log_notice("wsd-fleet: no connection to NATS yet: %s", b->why);
    s = natsOptions_SetRetryOnFailedConnect(b->settings, true, on_up, b);
    s = s == NATS_OK ? natsConnection_Connect(&b->connection, b->settings) : s;
    if (s == NATS_OK)
        put(b, CAME_UP, NULL, NULL);
    return s == NATS_NOT_YET_CONNECTED ? NATS_OK : s;
}

int bus_new(struct bus **ret_bus, const struct bus_options *options, char ret_error[static 256])
{
    struct bus *b = calloc(1, sizeof(*b));
    natsInbox *inbox = NULL;
    char subject[BUS_SUBJECT];

    snprintf(ret_error, 256, "out of memory");
    if (!b)
        return -ENOMEM;
    b->options = *options;
    b->free_slot = UINT32_MAX;
    list_init(&b->news);
    list_init(&b->subscriptions);
    list_init(&b->questions);
    pthread_mutex_init(&b->lock, NULL);
    if (init_loop(b) < 0 || natsInbox_Create(&inbox) != NATS_OK) {
        bus_free(b);
        return -ENOMEM;
    }
    /* the name in it is what permissions of the servers go by */
    snprintf(b->inbox, sizeof(b->inbox), "_INBOX.%.31s.%.22s", options->name, inbox + strlen("_INBOX."));
    natsInbox_Destroy(inbox);
    natsStatus s = set_all(b);
    if (s == NATS_OK)
        s = start_connecting(b);
    if (s != NATS_OK)
        return fail(b, s, ret_error);
    snprintf(subject, sizeof(subject), "%s.q.>", b->inbox);
    if (bus_subscribe(b, subject, on_answer, b) < 0)
        return fail(b, NATS_ERR, ret_error);
    *ret_bus = b;
    return 0;
}

/* Messages are libnats', which can free none once it is closed. */
static void forget_news(struct bus *b)
{
    struct list some;

    list_init(&some);
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    list_move_all(&some, &b->news);
    pthread_mutex_unlock(&b->lock);
    for (struct list *l; (l = list_pop_front(&some));) {
        struct news *n = container_of(l, struct news, link);

        natsMsg_Destroy(n->msg);
        free(n);
    }
}

struct bus *bus_free(struct bus *b)
{
    if (!b)
        return NULL;
    if (b->connection) {
        (void)natsConnection_FlushTimeout(b->connection, FLUSH_MSEC);
        natsConnection_Close(b->connection);
    }
    while (!list_empty(&b->subscriptions)) {
        struct subscription *s = container_of(list_pop_front(&b->subscriptions), struct subscription, link);

        natsSubscription_Destroy(s->handle);
        free(s);
    }
    natsConnection_Destroy(b->connection);
    forget_news(b);
    (void)nats_CloseAndWait(FLUSH_MSEC); /* of its threads none touches the bus any more */
    natsOptions_Destroy(b->settings);
    while (!list_empty(&b->questions))
        bus_forget(container_of(b->questions.next, struct bus_question, link));
    if (b->event)
        event_free(b->event);
    if (b->tick)
        event_free(b->tick);
    close_fd(b->fd);
    pthread_mutex_destroy(&b->lock);
    free(b->slots);
    free(b);
    return NULL;
}
