/* SPDX-License-Identifier: Apache-2.0
 *
 * direct-lanes.h: direct lanes as their users see them (direct-lane.c). [loop]
 */
#pragma once

#include "domains/plugin-query.h"

struct lane;

/* The user of a direct lane, embedded in the caller's object. The caller zeroes it and sets ops before it hands it
 * in. */
struct lane_user {
    const struct lane_ops *ops;
    struct lane *lane; /* NULL: none */
    bool notices;      /* it wants a notice socket, too */
};

#define LANE_FDS 3u /* memory, grant, the client's end of the notice socket; the last is -1 if there is none */

struct lane_ops {
    /* The lane is open. The descriptors are for the client, and live for the time of the call. */
    void (*opened)(struct lane_user *u, const int fds[LANE_FDS]);
    bool (*may_use)(struct lane_user *u, const char *plugin); /* as in watch_ops */
    /* There is no lane, or it has ended. This is the last call. code 0: it may be asked for again soon, since the
     * executor has ended and another will come, or another client has it. */
    void (*gone)(struct lane_user *u, int code, const char *text);
};

/* A query for the number of a function; embedded in the asker's object. */
struct lane_bind {
    struct plugin_query query; /* private, like all fields except answer, number and idempotent */
    struct list link;
    struct lane_user *user;
    char *request, function[64];
    bool told; /* the executor was told of the function */
    uint32_t number;
    bool idempotent;
    void (*answer)(struct lane_bind *b, int code, const char *text); /* code 0: number is set */
};

/* What goes on in all lanes. */
struct lane_pace {
    uint64_t calls, wakes; /* begun; times that a client slept until it was woken: since the start */
    uint64_t usec;         /* CLOCK_MONOTONIC of the last look, some 100 ms after the one before while calls go on */
};
struct lane_pace jobs_lane_pace(const struct jobs *jobs);

/* Counts in function-stats.h what direct calls of this user (0: of all) have come to until now. Returns the number of
 * functions that were looked at. */
uint32_t jobs_lanes_called(struct jobs *jobs, uint32_t uid);
/* Whether this kernel supports direct lanes. */
bool jobs_lanes_available(void);
/* Returns NULL: opened or gone is called, now or later; or the reason why not, and no call follows. */
const char *jobs_lane_open(struct jobs *jobs, uint32_t uid, struct directory *directory, struct lane_user *u);
/* Returns 0: answer is called, now or later; -EINVAL (no open lane, or a name that is too long), -EACCES,
 * -ENAMETOOLONG, -ENOMEM. */
int jobs_lane_bind(struct lane_user *u, const char *plugin, const char *function, struct lane_bind *b);
void jobs_lane_forget(struct lane_bind *b); /* no answer will be called */
/* The client reports a long wait. */
void jobs_lane_waits(struct lane_user *u);
/* Cancels the running calls. No more calls of ops. */
void jobs_lane_close(struct lane_user *u);
