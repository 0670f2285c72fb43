/* SPDX-License-Identifier: Apache-2.0
 *
 * parcel.h: parcels of other nodes that this one has: what their jobs have in common. Everything here is [loop].
 *
 * A parcel is acknowledged, or given back, as a whole, when each of its jobs is over. Their ends are stored in one
 * message, when all are there or after HURRY_USEC. What ends later, or does not fit, is stored under the job's own id, as
 * the end of a letter.
 *
 * A parcel that comes again had a node that died, or gave it back. So only those of its jobs run that have no stored
 * end. When it has come twice, one of them may be what the nodes died of. Then they run one by one, and one that had
 * begun when its node died runs when all others have ended.
 */
#pragma once

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fleet/letter.h"

struct bus;
struct parcel;
struct parcels;

#define PARCEL_TIMES_MAX 2u /* that a parcel comes, until its jobs run one by one */

/* A job, embedded in its owner's object. Zero-initialised is in no parcel. */
struct parcel_item {
    struct list queue;     /* of those that wait for others to run */
    struct parcel *parcel; /* NULL: none */
    uint32_t place, times; /* times: as of parcel_suspect() */
    bool wary;             /* where a node had begun it, it runs behind the others: parcel_suspect() */
    bool alone;            /* its end is stored under its own id */
};

struct parcels_options {
    struct bus *bus;
    const char *tag;                                        /* of this process */
    void (*begin)(struct parcel_item *item, void *context); /* it came before: its end may be stored under its id */
    void (*ended)(struct parcel_item *item, void *context); /* its end is stored with the parcel */
    void (*back)(struct parcel_item *item, void *context);  /* it is to be given back */
    void (*over)(void *context);                            /* a parcel is here no more */
    /* How many jobs of this function this node takes in a parcel. */
    uint32_t (*together)(const char *function, void *context);
    void *context;
};

int parcels_new(struct parcels **ret_parcels, const struct parcels_options *options); /* 0 or -ENOMEM */
struct parcels *parcels_free(struct parcels *ps); /* behind the last item. NULL is fine */
void parcels_leave(struct parcels *ps);           /* those of which nothing is known yet are given back */
bool parcels_are_here(const struct parcels *ps);  /* one at least */
/* Of what is here. is_time: the server has to hear of it. */
void parcels_tick(struct parcels *ps, uint64_t now_usec, bool is_time);

/* Whether the parcel is here already. Then this is its receipt from now on. */
bool parcels_have(struct parcels *ps, const char *id, const char *receipt);
/* One that has come. NULL: no memory. It stays until parcel_filled(), and then until its last item has left. */
struct parcel *parcel_new(struct parcels *ps, const char *id, const char *receipt, uint64_t delivered);
/* Its next job. False: it has too many. The first one says where the ends go, and of which function they are. */
bool parcel_add(struct parcel *p, struct parcel_item *item, const char *home, const char *function);
bool parcel_is_new(const struct parcel *p);        /* as far as the server says, no node had it before */
uint64_t parcel_delivered(const struct parcel *p); /* how often it has come */
uint32_t parcel_size(const struct parcel *p);      /* jobs that were added */
/* Ends all jobs behind those that were added, which could not be read, with these words. */
void parcel_end_rest(struct parcel *p, const char *home, const char *words);
/* All that could be read was added. error: 0; -EBADMSG: the rest is no job, and is dropped; others: it comes again. */
void parcel_filled(struct parcel *p, int error);

/* Takes the end of a job. False: it is to be stored under the job's id. */
bool parcel_end(struct parcel_item *item, const struct msg_run_end *end, const void *output, size_t size);
/* The job is over here. given_back: it has not ended. */
void parcel_leave(struct parcel_item *item, bool given_back);
/* So many times nodes have begun it, and did not end it: it begins again when the others are over, and those that were
 * begun fewer times. */
void parcel_suspect(struct parcel_item *item, uint32_t times);
