/* SPDX-License-Identifier: Apache-2.0
 *
 * guest.h: jobs of other nodes that this one has: it runs them by the local wsd, and tells their ends. [loop]
 */
#pragma once

#include <nats/nats.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/letter.h"

struct bus;
struct event_base;
struct guests;

struct guests_options {
    struct event_base *base;
    struct bus *bus;
    const char *socket; /* of wsd; NULL: as for wsd_client_open() */
    const char *node;   /* this one's name */
    const char *run_as; /* [fleet] run-as; NULL: jobs run as the user of this process */
    /* Whether the local wsd says so of PLUGIN or PLUGIN:FUNCTION. */
    bool (*may_run_twice)(const char *name, void *context);
    /* How many jobs of this function the node takes in a parcel; 1: none. run_usec: how long one has run; 0: unknown. */
    uint32_t (*together)(const char *name, uint64_t run_usec, void *context);
    /* There is a connection to wsd since now, or none. */
    void (*connected)(bool up, void *context);
    /* One is held no more, or its end is stored. */
    void (*left)(void *context);
    void *context;
};

struct in_counters {
    uint64_t held, held_most, taken, given_back, ended, redelivered, interrupted, dead, parcels;
};

int guests_new(struct guests **ret_guests, const struct guests_options *options); /* 0 or a negative errno */
struct guests *guests_free(struct guests *s);
/* A message of WSD_JOBS, which stays the caller's. */
void guests_take(struct guests *s, natsMsg *msg, const struct letter_receipt *receipt);
/* To be called often. is_time: the server has to hear of what is held. */
void guests_tick(struct guests *s, uint64_t now_usec, bool is_time);
void guests_leave(struct guests *s);          /* those that come from now on are given back */
bool guests_are_here(const struct guests *s); /* a job, or the end of one that is not stored */
struct in_counters guests_count(const struct guests *s);
