/* SPDX-License-Identifier: Apache-2.0
 *
 * in.h: jobs that come from elsewhere: a client of the local wsd that takes what it has room for. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fleet/guest.h" /* struct in_counters */

struct bus;
struct event_base;
struct in;

#define IN_HELD_MAX 4096u

struct in_options {
    struct event_base *base;
    struct bus *bus;
    const char *socket;  /* of wsd; NULL: as for wsd_client_open() */
    const char *node;    /* this one's name */
    const char *run_as;  /* as in struct guests_options */
    const char *plugins; /* names that it takes jobs for, with commas between; NULL: all that wsd has */
    bool builds;         /* jobs for its builds of them, too */
    uint32_t held;       /* jobs at once, 1 to IN_HELD_MAX */
    uint64_t ack_usec;   /* how long the server waits before it takes this node for dead */
    /* After in_leave(): it holds nothing any more. */
    void (*ended)(void *context);
    void *context;
};

int in_new(struct in **ret_in, const struct in_options *options); /* 0 or a negative errno */
struct in *in_free(struct in *i);
void in_state(struct in *i, bool up); /* of the bus */
void in_leave(struct in *i);          /* takes no more jobs */
struct in_counters in_count(const struct in *i);
/* The name of the n-th plugin that it takes jobs for, from 0 on. NULL: there are no more. */
const char *in_plugin(const struct in *i, uint32_t n);
