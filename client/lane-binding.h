/* SPDX-License-Identifier: Apache-2.0
 *
 * lane-binding.h: the direct lane of a handle: lane-binding.c has it opened and its functions bound, calls.c calls
 * through it. One thread a handle.
 */
#pragma once

#include "base/cost.h"
#include "connection.h"
#include "ring/lane-ring.h"
#include "wsd/client.h"

#define AGAIN_AFTER 64u /* calls until a lane that was refused is asked for again; doubled up to AGAIN_MAX */
#define AGAIN_MAX   4096u

/* LANE_LEAVING: it was closed before the answer, which may still bring it. */
enum lane_progress { LANE_NONE, LANE_ASKED, LANE_THERE, LANE_LEAVING };

struct lane;

/* A function that has been called. */
struct function {
    struct request request; /* LANE_BIND, while ASKED */
    struct lane *lane;
    char *plugin, *name;
    enum lane_progress progress;
    uint32_t number;
    uint64_t next;    /* not asked for before this many calls */
    struct cost cost; /* calls.c: going by that several of its calls share a slot */
};

/* Words of results, until the next call. */
struct words {
    struct words *next;
    char text[];
};

struct lane {
    struct request request; /* LANE_OPEN, as long as the lane lives */
    struct connection *connection;
    unsigned n_wanted; /* that wait for the answer: its words are kept */
    int refused;       /* the last answer: 0 or a negative errno */
    enum lane_progress progress;
    struct lane_client ring; /* mapped */
    bool mapped;
    bool kept;                             /* also while it is idle: for each lane that the handle has from now on */
    unsigned depth;                        /* slots that are waited for */
    uint32_t n_parked, parked[LANE_SLOTS]; /* slots that are waited for no longer, and have not ended */
    uint64_t n_calls, next, pause;
    uint32_t dry; /* calls in a row that it had no credit for */
    struct function functions[LANE_BINDS];
    uint32_t n_functions;
    struct words *words;
};

/* The handle's; NULL: no memory. */
struct lane *lane_of(struct wsd_client *client);
/* What goes by the lane now; NULL: nothing, but it may have been asked for. */
struct function *lane_function(struct wsd_client *client, struct lane *l, const char *plugin, const char *name);
/* There was no credit for a call: after many of those it goes back to wsd, since another one may be better. */
void lane_is_dry(struct wsd_client *client, struct lane *l);
/* The state and exit of a call that has ended. False: it has not: it goes by the socket, or has given too much output
 * (LANE_OVERFLOW). */
bool lane_end(const struct lane_result *result, enum wsd_job_state *ret_state, int *ret_exit);
/* How long n more calls take, as far as is known; RING_WORTH_USEC: that or more. */
uint32_t lane_expected_usec(const struct function *f, uint32_t n);
/* Whether there is room for a slot more. Parked ones that have ended are free from now on. */
bool lane_has_room(struct lane *l);
/* A slot that was cancelled is waited for no longer. */
void lane_park(struct lane *l, uint32_t slot);
/* A slot less is waited for; then it may be unmapped. */
void lane_leave(struct lane *l);
/* Has them forgotten. */
void lane_words_free(struct lane *l);
/* For a child of fork(), which does not have the lane's memory. */
void lane_forget(struct lane *l);
/* For one that takes over the handle: wsd has the lane back. */
void lane_give_back(struct wsd_client *client, struct lane *l);
void lane_free(struct wsd_client *client); /* the connection is over; every request has been closed */
