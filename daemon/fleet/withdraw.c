/* SPDX-License-Identifier: Apache-2.0
 *
 * withdraw.c: takes cancelled jobs from the servers.
 * Owns what it has been told and not yet done.
 * Keeps: no message goes but the one that was meant. */
#include "fleet/withdraw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "fleet/bus.h"
#include "fleet/letter.h"
#include "fleet/still.h"

struct withdrawals {
    struct bus *bus;
    struct list all; /* struct withdrawal, the oldest first */
    uint32_t n, n_asked;
};

struct withdrawal {
    struct list link;
    struct withdrawals *of;
    struct bus_question question;
    uint64_t sequence, due_usec;
    uint32_t tries;
    bool asked;
    char message_id[STILL_ID], job[LETTER_ID];
};

static void withdrawal_free(struct withdrawal *one)
{
    bus_forget(&one->question);
    list_remove(&one->link);
    one->of->n_asked -= one->asked;
    one->of->n--;
    free(one);
}

/* False: there is no connection. */
static bool delete_message(struct bus *bus, uint64_t sequence)
{
    char request[64];
    int n = snprintf(request, sizeof(request), "{\"seq\":%" PRIu64 ",\"no_erase\":true}", sequence);

    return bus_tell(bus, "$JS.API.STREAM.MSG.DELETE." STREAM_JOBS, NULL, request, (size_t)n);
}

/* The node that has it. False: there is no connection. */
static bool tell_node(struct bus *bus, const char *job)
{
    char subject[LETTER_SUBJECT];

    snprintf(subject, sizeof(subject), "wsd.cancel.%s", job);
    return bus_tell(bus, subject, NULL, "", 0);
}

static void on_answer(struct bus_question *q, natsMsg *msg)
{
    struct withdrawal *one = container_of(q, struct withdrawal, question);
    struct bus *bus = one->of->bus;
    enum still still = still_answer(msg, one->message_id);

    one->of->n_asked--;
    one->asked = false;
    if (still == STILL_UNKNOWN) {
        one->tries += bus_is_up(bus);
        one->due_usec = clock_monotonic_usec() + WITHDRAWAL_PAUSE_USEC;
        if (one->tries < WITHDRAWAL_TRIES)
            return;
    } else if (still == STILL_THERE) {
        (void)delete_message(bus, one->sequence);
    }
    withdrawal_free(one);
}

static void go_on(struct withdrawal *one)
{
    struct withdrawals *w = one->of;

    if (*one->job && tell_node(w->bus, one->job))
        *one->job = 0;
    if (one->sequence) {
        one->asked = true;
        w->n_asked++;
        still_ask_number(w->bus, &one->question, one->sequence);
    } else if (!*one->job) {
        withdrawal_free(one);
    }
}

void withdrawals_tick(struct withdrawals *w, uint64_t now_usec)
{
    if (!bus_is_up(w->bus))
        return;
    list_for_each_entry_safe (struct withdrawal, one, after_one, &w->all, link) {
        if (w->n_asked == WITHDRAWALS_AT_ONCE)
            return;
        if (!one->asked && now_usec >= one->due_usec)
            go_on(one);
    }
}

void withdraw(struct withdrawals *w, const struct withdrawn *what)
{
    bool told = !what->job || tell_node(w->bus, what->job);
    bool gone = what->sequence == 0 || (bus_is_up(w->bus) && what->connection == bus_connection(w->bus) &&
                                        delete_message(w->bus, what->sequence));
    struct withdrawal *one = told && gone ? NULL : calloc(1, sizeof(*one));

    if (!one)
        return; /* it is done; or, without memory, the job may run */
    one->of = w;
    one->question.answered = on_answer;
    one->sequence = gone ? 0 : what->sequence;
    snprintf(one->message_id, sizeof(one->message_id), "%s", what->message_id);
    snprintf(one->job, sizeof(one->job), "%s", told ? "" : what->job);
    if (w->n == WITHDRAWALS_MAX)
        withdrawal_free(container_of(w->all.next, struct withdrawal, link));
    list_push_back(&w->all, &one->link);
    w->n++;
}

int withdrawals_new(struct withdrawals **ret_withdrawals, struct bus *bus)
{
    struct withdrawals *w = calloc(1, sizeof(*w));

    if (!w)
        return -ENOMEM;
    w->bus = bus;
    list_init(&w->all);
    *ret_withdrawals = w;
    return 0;
}

struct withdrawals *withdrawals_free(struct withdrawals *w)
{
    if (!w)
        return NULL;
    list_for_each_entry_safe (struct withdrawal, one, after_one, &w->all, link)
        withdrawal_free(one);
    free(w);
    return NULL;
}
