/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.c: jobs that go elsewhere together.
 * Owns the lanes, and the parcels from their first job until the last of it is over.
 * Keeps: parcels go only where a node has said, not long ago, that it takes them; a node that is older would throw one
 * away. A parcel is published under an id of its own until the server has it. Its ends may be told twice; the second
 * ones are dropped. Where the live message is lost, the stored one is looked up.
 * Does not know what becomes of a job (out.c), or when one that is still missing is looked up by its own id. */
#include "fleet/lanes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "fleet/bus.h"
#include "fleet/withdraw.h"

#define LANES_MAX     256u      /* that are kept without a job */
#define TRUST_USEC    10000000u /* so long a node's word holds that it takes parcels */
#define HEAR_USEC     10000u    /* between two looks at that word */
#define AGAIN_USEC    500000u   /* before a parcel that was refused, or could not be sent, is sent again */
#define GATHER_USEC   50000u    /* jobs wait for the letter before them for so long, at most */
#define LOOK_USEC     2000000u  /* before stored ends are looked for, at first */
#define LOOK_MAX_USEC 30000000u /* and later */
#define LANE_KEY      (CODEC_PLACE_MAX + 24u)

enum stage {
    OUTGOING_GATHERS,
    OUTGOING_SENDS, /* the server has not said that it has it */
    OUTGOING_WAITS, /* before it is sent again */
    OUTGOING_AWAY,
};

/* A parcel that is on its way, or gathered. */
struct outgoing {
    struct list link; /* lanes->parcels */
    struct hash_link by_id;
    struct bus_question question, look;
    struct lane *lane;
    enum stage stage;
    bool busy;      /* its ends are being read */
    bool has_other; /* it has a job that was not cancelled */
    uint32_t n, n_left;
    uint64_t sequence, due_usec, pause_usec;
    uint32_t connection; /* on which it got the number */
    char id[LETTER_ID];
    struct buffer letter;
    struct lane_item *items[PARCEL_JOBS]; /* NULL: it is over */
};

struct lane {
    struct list link; /* lanes->all */
    struct hash_link by_key;
    struct lanes *lanes;
    uint32_t n_items;
    uint32_t n_sending; /* letters that the server has not taken */
    uint32_t size;      /* jobs of a parcel, as a node has said; 0: none has */
    uint64_t told_usec; /* when */
    struct outgoing *open;
    uint32_t uid;
    int priority;       /* of the first job */
    char key[LANE_KEY]; /* USER CLASS FUNCTION */
    const char *function;
};

struct lanes {
    struct lanes_options options;
    struct list all, parcels;
    struct hash by_key, by_id;
    struct lane *last;    /* that a job has entered; NULL: none */
    uint64_t tag, serial; /* ids of parcels: the tag is of this process */
    struct lanes_counters counters;
};

/* --- lanes -------------------------------------------------------------------------------------------------------- */

static uint64_t key_of(const char *text)
{
    return hash_text(0, text, strlen(text));
}

static struct lane *lane_find(struct lanes *l, const char *key)
{
    if (l->by_key.n == 0)
        return NULL;
    for (struct hash_link *h = hash_first(&l->by_key, key_of(key)); h; h = hash_next(h)) {
        struct lane *lane = container_of(h, struct lane, by_key);

        if (strcmp(lane->key, key) == 0)
            return lane;
    }
    return NULL;
}

static void lane_free(struct lane *lane)
{
    if (lane->lanes->last == lane)
        lane->lanes->last = NULL;
    list_remove(&lane->link);
    hash_remove(&lane->lanes->by_key, &lane->by_key);
    free(lane);
}

/* Those that have no job. */
static void forget_idle(struct lanes *l)
{
    list_for_each_entry_safe (struct lane, lane, after, &l->all, link)
        if (lane->n_items == 0)
            lane_free(lane);
}

static struct lane *lane_new(struct lanes *l, const char *key)
{
    if (l->by_key.n >= LANES_MAX)
        forget_idle(l);
    struct lane *lane = calloc(1, sizeof(*lane));
    if (!lane)
        return NULL;
    lane->lanes = l;
    snprintf(lane->key, sizeof(lane->key), "%s", key);
    if (hash_insert(&l->by_key, &lane->by_key, key_of(key)) < 0) {
        free(lane);
        return NULL;
    }
    list_init(&lane->link);
    list_push_back(&l->all, &lane->link);
    return lane;
}

static struct lane *lane_get(struct lanes *l, const char *function, uint32_t uid, int priority)
{
    char key[LANE_KEY];
    int n = snprintf(key, sizeof(key), "%u %s ", uid, letter_classes[letter_class(priority)]);

    snprintf(key + n, sizeof(key) - (size_t)n, "%s", function);
    struct lane *lane = lane_find(l, key);
    if (!lane && (lane = lane_new(l, key))) {
        lane->function = lane->key + n;
        lane->priority = priority;
        lane->uid = uid;
    }
    return lane;
}

void lanes_enter(struct lanes *l, struct lane_item *item, const char *function, uint32_t uid, int priority)
{
    struct lane *lane = l->last;

    if (!lane || lane->uid != uid || letter_class(lane->priority) != letter_class(priority) ||
        strcmp(lane->function, function) != 0)
        lane = lane_get(l, function, uid, priority);
    l->last = lane;
    if (lane)
        lane->n_items++;
    item->lane = lane;
}

void lanes_hear(struct lane_item *item, natsMsg *msg)
{
    struct lane *lane = item->lane;
    uint64_t now = clock_monotonic_usec();

    if (!lane || (lane->size && now - lane->told_usec < HEAR_USEC))
        return;
    uint32_t size = bus_header(msg, PARCEL_HEADER);
    if (size == 0) /* of a node that is older, which says nothing of others */
        return;
    lane->size = MIN(size, PARCEL_JOBS);
    lane->told_usec = now;
}

/* --- on their way ------------------------------------------------------------------------------------------------- */

static void parcel_free(struct outgoing *p)
{
    struct lane *lane = p->lane;

    lane->n_sending -= p->stage == OUTGOING_SENDS || p->stage == OUTGOING_WAITS;
    if (lane->open == p)
        lane->open = NULL;
    bus_forget(&p->question);
    bus_forget(&p->look);
    list_remove(&p->link);
    hash_remove(&lane->lanes->by_id, &p->by_id);
    buffer_deinit(&p->letter);
    free(p);
}

/* All its jobs are over. */
static void parcel_over(struct outgoing *p)
{
    const struct withdrawn what = {.sequence = p->sequence, .connection = p->connection, .message_id = p->id};

    if (!p->has_other)
        withdraw(p->lane->lanes->options.withdrawals, &what);
    parcel_free(p);
}

static void publish(struct outgoing *p)
{
    char subject[LETTER_SUBJECT];

    p->stage = OUTGOING_SENDS;
    (void)letter_parcel_subject(subject, p->lane->function, p->lane->priority, p->id);
    bus_ask_saying(p->lane->lanes->options.bus, &p->question, subject, p->id, HOME_HEADER, p->lane->lanes->options.node,
                   buffer_data(&p->letter), buffer_size(&p->letter));
}

static struct lane_item *only_one(struct outgoing *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i])
            return p->items[i];
    return NULL;
}

/* What was gathered leaves. One job is a letter, and not a parcel. */
static void send(struct lane *lane)
{
    struct outgoing *p = lane->open;

    lane->open = NULL;
    if (p->n > 1) {
        lane->n_sending++;
        lane->lanes->counters.parcels++;
        lane->lanes->counters.jobs += p->n_left;
        publish(p);
        return;
    }
    struct lane_item *item = only_one(p);
    struct buffer letter = p->letter;
    p->letter = (struct buffer){0};
    item->parcel = NULL;
    parcel_free(p);
    lane->lanes->options.alone(item, &letter);
    buffer_deinit(&letter);
}

/* The server has taken a letter of the lane, or a job of it is over. */
static void go_on(struct lane *lane)
{
    if (lane->open && lane->n_sending == 0)
        send(lane);
}

void lanes_sends(struct lane_item *item, bool sends)
{
    struct lane *lane = item->lane;

    if (!lane || item->sends == sends)
        return;
    item->sends = sends;
    lane->n_sending += sends ? 1 : -1u;
    if (!sends)
        go_on(lane);
}

static void look_after(struct outgoing *p, uint64_t pause_usec)
{
    p->pause_usec = pause_usec;
    p->due_usec = clock_monotonic_usec() + pause_usec;
}

static void on_stored(struct bus_question *q, natsMsg *msg)
{
    struct outgoing *p = container_of(q, struct outgoing, question);
    struct lane *lane = p->lane;

    if (!bus_is_stored(msg) || (p->sequence = bus_sequence(msg)) == 0) { /* no answer, no stream, or it is full */
        p->stage = OUTGOING_WAITS;
        p->due_usec = clock_monotonic_usec() + AGAIN_USEC;
        return;
    }
    p->connection = bus_connection(lane->lanes->options.bus);
    p->stage = OUTGOING_AWAY;
    buffer_deinit(&p->letter);
    look_after(p, LOOK_USEC);
    lane->n_sending--;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i])
            lane->lanes->options.stored(p->items[i]);
    go_on(lane);
}

void lanes_leave(struct lane_item *item, bool stopped)
{
    struct outgoing *p = item->parcel;
    struct lane *lane = item->lane;

    if (!lane)
        return;
    item->lane = NULL;
    lane->n_items--;
    lane->n_sending -= item->sends;
    if (p) {
        p->items[item->place] = NULL;
        p->n_left--;
        p->has_other |= !stopped;
        item->parcel = NULL;
        if (p->n_left == 0 && !p->busy)
            parcel_over(p);
    }
    go_on(lane);
}

/* --- gathering ---------------------------------------------------------------------------------------------------- */

static struct outgoing *find(struct lanes *l, const char *id)
{
    if (l->by_id.n == 0)
        return NULL;
    for (struct hash_link *h = hash_first(&l->by_id, key_of(id)); h; h = hash_next(h)) {
        struct outgoing *p = container_of(h, struct outgoing, by_id);

        if (strcmp(p->id, id) == 0)
            return p;
    }
    return NULL;
}

static void looked(struct bus_question *q, natsMsg *msg);

static struct outgoing *open_parcel(struct lane *lane)
{
    struct outgoing *p = malloc(sizeof(*p));

    if (!p)
        return NULL;
    memset(p, 0, offsetof(struct outgoing, items));
    p->lane = lane;
    p->question.answered = on_stored;
    p->look.answered = looked;
    p->due_usec = clock_monotonic_usec() + GATHER_USEC;
    list_init(&p->link);
    snprintf(p->id, sizeof(p->id), "%016" PRIx64 "%016" PRIx64, lane->lanes->tag, lane->lanes->serial++);
    if (hash_insert(&lane->lanes->by_id, &p->by_id, key_of(p->id)) < 0) {
        free(p);
        return NULL;
    }
    list_push_back(&lane->lanes->parcels, &p->link);
    return p;
}

bool lanes_take(const struct lane_item *item, size_t size)
{
    const struct lane *lane = item->lane;

    return lane && lane->size > 1 && size <= PARCEL_SIZE && clock_monotonic_usec() - lane->told_usec < TRUST_USEC;
}

/* At its end. Returns 0, -ENOMEM or -E2BIG. */
static int append(struct outgoing *p, struct lane_item *item, struct msg_run *run, const void *input, size_t size)
{
    run->run = p->n + 1;
    int r = parcel_put_job(&p->letter, p->lane->lanes->options.node, run, input, size);

    if (r < 0)
        return r;
    item->parcel = p;
    item->place = p->n;
    p->items[p->n++] = item;
    p->n_left++;
    return 0;
}

int lanes_put(struct lane_item *item, struct msg_run *run, const void *input, size_t size)
{
    struct lane *lane = item->lane;
    int r = -E2BIG;

    if (lane->open) {
        r = append(lane->open, item, run, input, size);
        if (r == -E2BIG)
            send(lane);
    }
    if (r == -E2BIG) {
        lane->open = open_parcel(lane);
        r = lane->open ? append(lane->open, item, run, input, size) : -ENOMEM;
        if (r < 0 && lane->open)
            parcel_free(lane->open);
    }
    if (r == 0 && lane->open->n >= lane->size)
        send(lane);
    return r;
}

void lanes_flush(struct lanes *l)
{
    list_for_each_entry (struct lane, lane, &l->all, link)
        go_on(lane);
}

/* --- their ends --------------------------------------------------------------------------------------------------- */

static void end_one(struct outgoing *p, struct letter_end *end)
{
    struct lane_item *item = end->end.run - 1 < p->n ? p->items[end->end.run - 1] : NULL;

    if (item) /* else it was told before, or is cancelled */
        p->lane->lanes->options.ended(item, end);
}

static void read_ends(struct outgoing *p, natsMsg *msg)
{
    struct span rest = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    struct lanes *l = p->lane->lanes;
    char why[160];
    int r = 0;

    p->busy = true;
    lanes_hear(&(struct lane_item){.lane = p->lane}, msg);
    while (r == 0 && rest.size > 0) {
        struct letter_end end = {0};

        r = parcel_get_end(l->options.codec, &rest, &end, why);
        if (r == 0)
            end_one(p, &end);
        buffer_deinit(&end.output);
    }
    if (r < 0) /* the tick looks for others */
        log_warning("wsd-fleet: ends that cannot be read: %s", r == -ENOMEM ? "out of memory" : why);
    p->busy = false;
    if (p->n_left == 0)
        parcel_over(p);
}

bool lanes_came(struct lanes *l, const char *id, natsMsg *msg)
{
    struct outgoing *p = find(l, id);

    if (p)
        read_ends(p, msg);
    return p;
}

static void looked(struct bus_question *q, natsMsg *msg)
{
    struct outgoing *p = container_of(q, struct outgoing, look);

    look_after(p, MIN(2 * p->pause_usec, (uint64_t)LOOK_MAX_USEC));
    if (bus_found(msg) == BUS_FOUND)
        read_ends(p, msg);
}

static void look(struct outgoing *p)
{
    char subject[LETTER_SUBJECT];
    const struct lanes_options *o = &p->lane->lanes->options;

    letter_end_subject(subject, o->node, p->id);
    p->due_usec = UINT64_MAX;
    bus_ask_last(o->bus, &p->look, STREAM_RESULTS, subject);
}

void lanes_tick(struct lanes *l, uint64_t now_usec)
{
    list_for_each_entry_safe (struct outgoing, p, after, &l->parcels, link) {
        if (now_usec < p->due_usec)
            continue;
        if (p->stage == OUTGOING_GATHERS) {
            send(p->lane); /* does not free another one */
        } else if (p->stage == OUTGOING_WAITS) {
            l->counters.again++;
            publish(p);
        } else if (p->stage == OUTGOING_AWAY) {
            look(p);
        }
    }
}

void lanes_look(struct lanes *l)
{
    list_for_each_entry (struct outgoing, p, &l->parcels, link)
        if (p->stage == OUTGOING_AWAY)
            look_after(p, 0);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct lanes_counters lanes_count(const struct lanes *l)
{
    return l->counters;
}

int lanes_new(struct lanes **ret_lanes, const struct lanes_options *options)
{
    struct lanes *l = calloc(1, sizeof(*l));

    if (!l)
        return -ENOMEM;
    if (getrandom(&l->tag, sizeof(l->tag), 0) < 0) {
        free(l);
        return -errno;
    }
    l->options = *options;
    list_init(&l->all);
    list_init(&l->parcels);
    *ret_lanes = l;
    return 0;
}

struct lanes *lanes_free(struct lanes *l)
{
    if (!l)
        return NULL;
    while (!list_empty(&l->all))
        lane_free(container_of(l->all.next, struct lane, link));
    hash_deinit(&l->by_key);
    hash_deinit(&l->by_id);
    free(l);
    return NULL;
}
