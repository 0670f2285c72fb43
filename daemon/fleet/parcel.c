/* SPDX-License-Identifier: Apache-2.0
 *
 * parcel.c: parcels of other nodes that this one has.
 * Owns them until their last job is over.
 * Keeps: a parcel is acknowledged when the end of each job is stored, not before. While it is here the server hears of it.
 * Does not run jobs (guest.c). */
#include "fleet/parcel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "fleet/bus.h"
#include "fleet/still.h"

#define HURRY_USEC 20000u  /* ends that are there are stored then, though others are not */
#define AGAIN_USEC 500000u /* before the server is asked again, which did not answer */
#define TAG        17u     /* with NUL */

enum stage {
    PARCEL_FILLS,
    PARCEL_LOOKS, /* which ends are stored: it came before */
    PARCEL_BLIND, /* before it looks again, as no server has looked */
    PARCEL_RUNS,
    PARCEL_TELLS,  /* its ends are not stored yet */
    PARCEL_WAITS,  /* before they are sent again */
    PARCEL_CHECKS, /* all are over: whether its message is still the one that it is acknowledged by */
};

struct parcel {
    struct list link; /* parcels->all */
    struct hash_link by_id;
    struct parcels *parcels;
    struct bus_question question;
    enum stage stage;
    bool collects;  /* ends of its jobs */
    bool bad, back; /* it is dropped, or given back, when its jobs are over */
    bool busy;      /* it stays, even if the last job leaves */
    uint32_t n, n_left, n_ends;
    uint32_t connection; /* of the bus, by which the receipt came */
    uint64_t delivered, due_usec;
    struct list queue, suspects; /* items that wait for the one that runs; and those that a node had begun */
    struct parcel_item *running; /* of those */
    char id[LETTER_ID], home[LETTER_NAME], receipt[BUS_SUBJECT], function[CODEC_PLACE_MAX];
    struct buffer letter;                   /* its ends */
    struct parcel_item *items[PARCEL_JOBS]; /* NULL: it is over */
};

struct parcels {
    struct parcels_options options;
    struct codec *codec;
    struct hash by_id;
    struct list all;
    bool leaving;
};

static uint64_t key_of(const char *text)
{
    return hash_text(0, text, strlen(text));
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

static void parcel_free(struct parcel *p)
{
    bus_forget(&p->question);
    list_remove(&p->link);
    hash_remove(&p->parcels->by_id, &p->by_id);
    buffer_deinit(&p->letter);
    free(p);
}

static void answer_server(const struct parcel *p)
{
    char words[LETTER_ANSWER] = "+ACK";

    if (p->bad)
        snprintf(words, sizeof(words), "+TERM");
    else if (p->back)
        letter_give_back(p->receipt, words);
    (void)bus_tell(p->parcels->options.bus, p->receipt, NULL, words, strlen(words));
}

static void tell(struct parcel *p)
{
    const struct parcels_options *o = &p->parcels->options;
    char subject[LETTER_SUBJECT], id[LETTER_ID + TAG + 8], size[12];

    p->collects = false;
    p->stage = PARCEL_TELLS;
    letter_end_subject(subject, p->home, p->id);
    snprintf(id, sizeof(id), "end-%s-%s", p->id, o->tag);
    snprintf(size, sizeof(size), "%u", o->together(p->function, o->context));
    bus_ask_saying(o->bus, &p->question, subject, id, PARCEL_HEADER, size, buffer_data(&p->letter),
                   buffer_size(&p->letter));
}

static void over(struct parcel *p, enum still still)
{
    const struct parcels_options *o = &p->parcels->options;

    if (still == STILL_THERE)
        answer_server(p);
    parcel_free(p);
    o->over(o->context);
}

static void check(struct parcel *p)
{
    p->stage = PARCEL_CHECKS;
    p->due_usec = UINT64_MAX;
    still_ask(p->parcels->options.bus, &p->question, p->receipt);
}

/* Goes on where all of its jobs are over. */
static void settle(struct parcel *p)
{
    if (p->n_left > 0 || p->busy || p->stage != PARCEL_RUNS)
        return;
    if (buffer_size(&p->letter) > 0) {
        tell(p);
        return;
    }
    if (p->connection != bus_connection(p->parcels->options.bus))
        check(p);
    else
        over(p, STILL_THERE);
}

bool parcel_end(struct parcel_item *item, const struct msg_run_end *end, const void *output, size_t size)
{
    struct parcel *p = item->parcel;
    struct msg_run_end e = *end;

    if (!p || !p->collects || item->alone)
        return false;
    e.run = item->place + 1;
    return parcel_put_end(&p->letter, &e, output, size) == 0;
}

/* --- its jobs one by one ------------------------------------------------------------------------------------------- */

static void run_next(struct parcel *p)
{
    struct list *l = list_pop_front(list_empty(&p->queue) ? &p->suspects : &p->queue);

    p->running = l ? container_of(l, struct parcel_item, queue) : NULL;
    if (p->running)
        p->parcels->options.begin(p->running, p->parcels->options.context);
}

void parcel_suspect(struct parcel_item *item, uint32_t times)
{
    struct parcel *p = item->parcel;
    struct list *before = p->suspects.next;

    item->wary = false;
    item->times = times;
    while (before != &p->suspects && container_of(before, struct parcel_item, queue)->times <= times)
        before = before->next;
    list_insert_before(before, &item->queue);
    run_next(p);
}

void parcel_leave(struct parcel_item *item, bool given_back)
{
    struct parcel *p = item->parcel;

    if (!p)
        return;
    list_remove(&item->queue);
    item->parcel = NULL;
    p->items[item->place] = NULL;
    p->n_left--;
    p->back |= given_back;
    if (p->running == item)
        run_next(p);
    settle(p);
}

static void each(struct parcel *p, void (*what)(struct parcel_item *item, void *context))
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i])
            what(p->items[i], p->parcels->options.context);
}

static void queue_up(struct parcel_item *item, void *context)
{
    item->wary = true;
    list_push_back(&item->parcel->queue, &item->queue);
}

/* Takes out those that have a stored end. */
static void drop_ended(struct parcel *p, natsMsg *msg)
{
    struct span rest = {natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)};
    char why[160];
    int r = 0;

    while (r == 0 && rest.size > 0) {
        struct letter_end end = {0};

        r = parcel_get_end(p->parcels->codec, &rest, &end, why);
        uint64_t place = r == 0 ? end.end.run - 1 : p->n;
        if (place < p->n && p->items[place])
            p->parcels->options.ended(p->items[place], p->parcels->options.context);
        buffer_deinit(&end.output);
    }
}

static void look(struct parcel *p)
{
    char subject[LETTER_SUBJECT];

    p->stage = PARCEL_LOOKS;
    letter_end_subject(subject, p->home, p->id);
    bus_ask_last(p->parcels->options.bus, &p->question, STREAM_RESULTS, subject);
}

static void looked(struct parcel *p, natsMsg *msg)
{
    const struct parcels_options *o = &p->parcels->options;
    enum bus_found found = bus_found(msg);

    if (found == BUS_UNKNOWN && !p->parcels->leaving) {
        p->stage = PARCEL_BLIND;
        p->due_usec = clock_monotonic_usec() + AGAIN_USEC;
        return;
    }
    p->stage = PARCEL_RUNS;
    p->busy = true;
    if (found == BUS_FOUND)
        drop_ended(p, msg);
    if (found == BUS_UNKNOWN) {
        each(p, o->back);
    } else if (p->delivered <= PARCEL_TIMES_MAX) {
        each(p, o->begin);
    } else {
        each(p, queue_up);
        run_next(p);
    }
    p->busy = false;
    settle(p);
}

static void answered(struct bus_question *q, natsMsg *msg)
{
    struct parcel *p = container_of(q, struct parcel, question);

    if (p->stage == PARCEL_LOOKS) {
        looked(p, msg);
    } else if (p->stage == PARCEL_CHECKS) {
        enum still still = still_answer(msg, p->id);

        if (still == STILL_UNKNOWN)
            p->due_usec = clock_monotonic_usec() + AGAIN_USEC;
        else
            over(p, still);
    } else if (bus_is_stored(msg)) {
        buffer_deinit(&p->letter);
        p->stage = PARCEL_RUNS;
        settle(p);
    } else {
        p->stage = PARCEL_WAITS;
        p->due_usec = clock_monotonic_usec() + AGAIN_USEC;
    }
}

/* --- what comes --------------------------------------------------------------------------------------------------- */

bool parcels_have(struct parcels *ps, const char *id, const char *receipt)
{
    if (ps->by_id.n == 0)
        return false;
    for (struct hash_link *l = hash_first(&ps->by_id, key_of(id)); l; l = hash_next(l)) {
        struct parcel *p = container_of(l, struct parcel, by_id);

        if (strcmp(p->id, id) == 0) {
            snprintf(p->receipt, sizeof(p->receipt), "%s", receipt);
            p->connection = bus_connection(ps->options.bus);
            return true;
        }
    }
    return false;
}

struct parcel *parcel_new(struct parcels *ps, const char *id, const char *receipt, uint64_t delivered)
{
    struct parcel *p = malloc(sizeof(*p));

    if (!p)
        return NULL;
    memset(p, 0, offsetof(struct parcel, items));
    p->parcels = ps;
    p->delivered = delivered;
    p->connection = bus_connection(ps->options.bus);
    p->collects = delivered <= 1;
    p->busy = true;
    p->question.answered = answered;
    p->due_usec = clock_monotonic_usec() + HURRY_USEC;
    snprintf(p->id, sizeof(p->id), "%s", id);
    snprintf(p->receipt, sizeof(p->receipt), "%s", receipt);
    list_init(&p->queue);
    list_init(&p->suspects);
    list_init(&p->link);
    if (hash_insert(&ps->by_id, &p->by_id, key_of(id)) < 0) {
        free(p);
        return NULL;
    }
    list_push_back(&ps->all, &p->link);
    return p;
}

bool parcel_add(struct parcel *p, struct parcel_item *item, const char *home, const char *function)
{
    if (p->n == PARCEL_JOBS)
        return false;
    if (p->n == 0) {
        snprintf(p->home, sizeof(p->home), "%s", home);
        snprintf(p->function, sizeof(p->function), "%s", function);
    }
    list_init(&item->queue);
    item->parcel = p;
    item->place = p->n;
    p->items[p->n++] = item;
    p->n_left++;
    return true;
}

bool parcel_is_new(const struct parcel *p)
{
    return p->delivered <= 1;
}

uint64_t parcel_delivered(const struct parcel *p)
{
    return p->delivered;
}

uint32_t parcel_size(const struct parcel *p)
{
    return p->n;
}

/* How many there are is not known. Of those that are none the sender takes no notice. */
void parcel_end_rest(struct parcel *p, const char *home, const char *words)
{
    struct msg_run_end e = {.status = WSD_STATUS_MAX, .error = {words, strlen(words)}};

    if (p->n == 0)
        snprintf(p->home, sizeof(p->home), "%s", home);
    for (e.run = p->n + 1; e.run <= PARCEL_JOBS; e.run++)
        if (parcel_put_end(&p->letter, &e, NULL, 0) < 0)
            log_warning("wsd-fleet: no memory for the end of a job that could not be read");
}

void parcel_filled(struct parcel *p, int error)
{
    p->bad = error == -EBADMSG;
    p->back |= error < 0;
    p->busy = false;
    p->stage = PARCEL_RUNS;
    if (!parcel_is_new(p) && p->n > 0) {
        look(p);
        return;
    }
    settle(p);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void parcels_leave(struct parcels *ps)
{
    ps->leaving = true;
}

bool parcels_are_here(const struct parcels *ps)
{
    return !list_empty(&ps->all);
}

void parcels_tick(struct parcels *ps, uint64_t now_usec, bool is_time)
{
    list_for_each_entry_safe (struct parcel, p, after, &ps->all, link) {
        if (is_time)
            (void)bus_tell(ps->options.bus, p->receipt, NULL, "+WPI", 4);
        bool hurries = p->stage == PARCEL_RUNS && p->collects && buffer_size(&p->letter) > 0;
        if (now_usec >= p->due_usec && (hurries || p->stage == PARCEL_WAITS))
            tell(p);
        else if (now_usec >= p->due_usec && p->stage == PARCEL_CHECKS)
            check(p);
        else if (now_usec >= p->due_usec && p->stage == PARCEL_BLIND)
            look(p);
    }
}

int parcels_new(struct parcels **ret_parcels, const struct parcels_options *options)
{
    struct parcels *ps = calloc(1, sizeof(*ps));
    int r = ps ? codec_new(&ps->codec) : -ENOMEM;

    if (r < 0) {
        free(ps);
        return r;
    }
    ps->options = *options;
    list_init(&ps->all);
    *ret_parcels = ps;
    return 0;
}

struct parcels *parcels_free(struct parcels *ps)
{
    if (!ps)
        return NULL;
    while (!list_empty(&ps->all))
        parcel_free(container_of(ps->all.next, struct parcel, link));
    hash_deinit(&ps->by_id);
    codec_free(ps->codec);
    free(ps);
    return NULL;
}
