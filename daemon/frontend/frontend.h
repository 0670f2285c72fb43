/* SPDX-License-Identifier: Apache-2.0
 *
 * frontend.h: the sockets. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "frontend/access.h"
#include "frontend/remote.h"
#include "jobs/jobs.h"

#define FRONTEND_OUT_HIGH (1024u * 1024u) /* unread bytes of output above which a client's requests are not read */
#define FRONTEND_OUT_LOW  (256u * 1024u)

struct frontend;
struct far_ends;

/* What the configuration may change. */
struct frontend_limits {
    uint64_t frame_usec;           /* limit for the rest of a frame, and for HELLO */
    uint64_t connections;          /* of all users */
    uint64_t connections_per_user; /* of one user, so that others still get in */
    uint64_t requests_per_user;    /* open requests on all connections of one user */
    uint64_t handshakes;           /* of clients of other machines, at the same time; no user is charged for them yet */
    uint64_t handshake_usec;       /* limit for each handshake */
    /* bytes in the outputs of all connections of one user; above it, each connection sends one frame at a time */
    uint64_t unread_per_user;
};

#define FRONTEND_LIMITS_DEFAULT                                                                                        \
    {                                                                                                                  \
        .frame_usec = 30ull * 1000000, .connections = 20000, .connections_per_user = 12000, .handshakes = 64,          \
        .handshake_usec = 10ull * 1000000, .requests_per_user = 1000000, .unread_per_user = 256ull << 20               \
    }

/* One of the configuration's limits. value: in the syntax of the file; "": none. */
struct frontend_limit {
    const char *key, *value;
    bool own, moved; /* own: of the one user `uid`. moved: changed while wsd runs, by the user `by` */
    uint32_t uid, by;
};

#define FRONTEND_LIMIT_ERROR 512u

/* Implemented by the owner of the configuration. */
struct frontend_limits_ops {
    /* Moves a limit. own: of one user. value "": back to the configuration. Returns 0, or -EINVAL, -ENOSPC or -ENOMEM
     * with the words. */
    int (*set)(void *userdata, uint32_t by, bool own, uint32_t uid, const char *key, const char *value,
               char error[static FRONTEND_LIMIT_ERROR]);
    /* Lists the general limits, then those of single users: of all, or of this one. */
    int (*each)(void *userdata, bool all, uint32_t uid,
                void (*each)(const struct frontend_limit *limit, void *userdata), void *context);
};

struct frontend_options {
    struct event_base *base;
    struct jobs *jobs;
    bool only_own_user; /* a user's own wsd: only for that user and root */
    uint32_t own_uid;
    struct far_ends *far_ends; /* for those that are neither root nor own_uid; NULL: no user is a stranger */
    struct frontend_limits limits;
    bool keeps; /* connections go on in the next wsd: frontend_leave() */
    /* owned by the caller; may change between two turns: frontend_set_rules() */
    const struct access_rules *rules;
    const struct frontend_limits_ops *limits_ops; /* NULL: limits are neither shown nor moved */
    void *limits_userdata;
};

int frontend_new(struct frontend **ret_frontend, const struct frontend_options *options);
/* Closes every connection; their jobs are cancelled unless detached. NULL is fine. Returns NULL. */
struct frontend *frontend_free(struct frontend *f);

/* Uses r from now on, and takes it. Ends each connection with a certificate that r refuses, or that r maps to another
 * user. */
void frontend_set_remote(struct frontend *f, struct remote *r);

/* Once a turn, before jobs_poll(): handles what clients have sent, the users in turn. True: there is more, and the loop
 * must not sleep. */
bool frontend_serve(struct frontend *f);
/* Once a turn: writes the gathered output and frees connections that have ended. True: more can be written at once, and
 * the loop must not sleep. */
bool frontend_flush(struct frontend *f);
/* After frontend_flush(): reads from a client that was answered, was the only one in this turn, and has no open
 * request. True: the turn continues as if this had come before. False: there was nothing to read, or no such client. */
bool frontend_read_on(struct frontend *f);
/* Tells every client that wsd is draining. */
void frontend_goodbye(struct frontend *f);
/* Whether all output has been written. */
bool frontend_quiet(const struct frontend *f);
/* Sets the limits; present connections stay. */
void frontend_set_limits(struct frontend *f, const struct frontend_limits *limits);
/* Sets the rules from the next request on, on present connections too. They stay the caller's, as in the options. Ends
 * each connection that acts for another user and may not any more. */
void frontend_set_rules(struct frontend *f, const struct access_rules *rules);
