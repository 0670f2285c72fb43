/* SPDX-License-Identifier: Apache-2.0
 *
 * lanes.h: jobs that go elsewhere together: small ones of one function, user and class, in a parcel. Everything here is
 * [loop].
 *
 * A job that finds no letter of its lane under way goes at once, alone. Those that come before the server has taken that
 * letter are gathered, and go together behind it. So nothing waits for company, and there are more jobs in a parcel the
 * busier the lane is.
 */
#pragma once

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "fleet/letter.h"

struct bus;
struct lane;
struct lanes;
struct outgoing;

/* A job, embedded in its owner's object. Zero-initialised goes alone, always. */
struct lane_item {
    struct lane *lane;       /* NULL: none */
    struct outgoing *parcel; /* NULL: it is in none */
    uint32_t place;          /* in the parcel, from 0 on */
    bool sends;              /* alone, and the server has not taken it */
};

struct lanes_options {
    struct bus *bus;
    const char *node;
    struct codec *codec;
    struct withdrawals *withdrawals; /* for parcels of which nothing is wanted any more */
    /* The only one of its parcel: that is its letter, which the callee may take. */
    void (*alone)(struct lane_item *item, struct buffer *letter);
    void (*stored)(struct lane_item *item); /* the server has its parcel */
    /* Its end, which lives only during the call. */
    void (*ended)(struct lane_item *item, struct letter_end *end);
};

struct lanes_counters {
    uint64_t parcels, jobs, again; /* that were sent; jobs in them; parcels that were sent again */
};

int lanes_new(struct lanes **ret_lanes, const struct lanes_options *options); /* 0 or a negative errno */
struct lanes *lanes_free(struct lanes *l);                                    /* behind the last item. NULL is fine */

/* Puts the job into the lane of its kind. Without memory it goes alone. */
void lanes_enter(struct lanes *l, struct lane_item *item, const char *function, uint32_t uid, int priority);
/* Whether a job with so many bytes of arguments and input is to go by lanes_put(). */
bool lanes_take(const struct lane_item *item, size_t size);
/* Gathers it, or sends it with others. Returns 0, -ENOMEM, or -E2BIG: it has to go alone. */
int lanes_put(struct lane_item *item, struct msg_run *run, const void *input, size_t size);
/* A job that goes alone is on its way to the server, or there. */
void lanes_sends(struct lane_item *item, bool sends);
/* The job is over. stopped: it was cancelled. A parcel that has only such jobs is taken from the servers. */
void lanes_leave(struct lane_item *item, bool stopped);
/* What the message of a job's end says of the node. */
void lanes_hear(struct lane_item *item, natsMsg *msg);

/* No more jobs come in this turn. */
void lanes_flush(struct lanes *l);
/* Ends under this id. False: it is no parcel's. */
bool lanes_came(struct lanes *l, const char *id, natsMsg *msg);
void lanes_tick(struct lanes *l, uint64_t now_usec); /* to be called often */
void lanes_look(struct lanes *l);                    /* there is a connection again */
struct lanes_counters lanes_count(const struct lanes *l);
