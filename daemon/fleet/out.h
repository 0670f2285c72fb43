/* SPDX-License-Identifier: Apache-2.0
 *
 * out.h: jobs that go elsewhere: a runner of the local wsd, for the place @fleet. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bus;
struct event_base;
struct out;

#define OUT_PLACE "@fleet"

struct out_options {
    struct event_base *base;
    struct bus *bus;
    const char *socket; /* of wsd; NULL: as for wsd_runner_options */
    const char *node;   /* this one's name */
    uint64_t wait_usec; /* for a server that takes a job, until that fails; UINT64_MAX: for ever */
    /* It has ended: after out_leave() and the last job, or for ever (error, with words). */
    void (*ended)(int error, const char *why, void *context);
    void *context;
};

/* What has been done so far. */
struct out_counters {
    uint64_t held, sent, sent_again, ended, second_ends, cancelled, parcels;
    uint64_t bytes, waiting; /* of inputs on their way to the servers now; jobs for which there is no room */
};

int out_new(struct out **ret_out, const struct out_options *options); /* 0 or a negative errno */
struct out *out_free(struct out *o);
void out_state(struct out *o, bool up); /* of the bus */
void out_leave(struct out *o);          /* takes no more jobs */
struct out_counters out_count(const struct out *o);
