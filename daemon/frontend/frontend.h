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

#define FRONTEND_OUT_HIGH (1024u * 1024u) /* bytes that a client owes us to read before it is not read from */
#define FRONTEND_OUT_LOW  (256u * 1024u)

struct frontend;

/* What the configuration may change. */
struct frontend_limits {
    uint64_t frame_usec;           /* for the rest of a frame, and for HELLO */
    uint64_t connections;          /* all users */
    uint64_t connections_per_user; /* the others must still get in */
    uint64_t requests_per_user;    /* open at the same time, over all of his connections */
    uint64_t handshakes;           /* of clients of other machines, at the same time: nobody is charged for them yet */
    uint64_t handshake_usec;       /* for each */
    /* bytes in the outputs of all of his connections; beyond it each has a frame at a time */
    uint64_t unread_per_user;
};

#define FRONTEND_LIMITS_DEFAULT                                                                                        \
    {                                                                                                                  \
        .frame_usec = 30ull * 1000000, .connections = 20000, .connections_per_user = 12000, .handshakes = 64,          \
        .handshake_usec = 10ull * 1000000, .requests_per_user = 1000000, .unread_per_user = 256ull << 20               \
    }

/* One of the configuration's limits. value: as the file has it; "": none. */
struct frontend_limit {
    const char *key, *value;
    bool own, moved; /* of one user, uid; other than in the configuration, by that user */
    uint32_t uid, by;
};

#define FRONTEND_LIMIT_ERROR 512u

/* Who owns the configuration has them. */
struct frontend_limits_ops {
    /* own: of one user; value "": as the configuration says. 0, -EINVAL, -ENOSPC or -ENOMEM with the words. */
    int (*set)(void *userdata, uint32_t by, bool own, uint32_t uid, const char *key, const char *value,
               char error[static FRONTEND_LIMIT_ERROR]);
    /* Those of everybody, then those of single users: of all, or of this one. */
    int (*each)(void *userdata, bool all, uint32_t uid,
                void (*each)(const struct frontend_limit *limit, void *userdata), void *context);
};

struct frontend_options {
    struct event_base *base;
    struct jobs *jobs;
    bool only_own_user; /* a user's own wsd: nobody but him and root */
    uint32_t own_uid;
    struct frontend_limits limits;
    bool keeps;                                   /* connections outlive this wsd: frontend_leave() */
    const struct access_rules *rules;             /* the caller's; may change between two turns: frontend_set_rules() */
    const struct frontend_limits_ops *limits_ops; /* NULL: limits are neither shown nor moved */
    void *limits_userdata;
};

int frontend_new(struct frontend **ret_frontend, const struct frontend_options *options);
/* Closes every connection; their jobs are cancelled unless detached. NULL is fine; returns NULL. */
struct frontend *frontend_free(struct frontend *f);

/* Accepts on a listening socket, whose descriptor becomes the frontend's. remote: of other machines, by TLS. 0 or a
 * negative errno. */
int frontend_listen(struct frontend *f, int fd, bool remote);
/* The descriptor of the only listening socket for clients of this machine; -1 where there are several, or none. */
int frontend_listener(const struct frontend *f);
/* The file of a Unix socket. */
struct frontend_address {
    uint64_t device, inode;
};

/* A Unix socket at the path, mode 0660; a dead one there is replaced. -EADDRINUSE where another wsd answers there.
 * -EPERM where root listens and others could write to its directory or one above it. In a sticky one what is root's
 * stays. group: its owner group, or (gid_t)-1. */
int frontend_bind(const char *path, uint32_t group, int *ret_fd, struct frontend_address *ret_address);
/* Of a listening socket that the last wsd has bound: whether its file is still at the path. 0 or a negative errno. */
int frontend_find(const char *path, int listener, struct frontend_address *ret_address);
/* Removes the file, where it still is the same one. Call it before the listening socket is closed: after that another
 * file may have its inode. */
void frontend_unbind(const char *path, const struct frontend_address *address);

/* Once a loop turn, before jobs_poll(): handles what clients have sent, each user's in turn. True where there is more:
 * the loop must not sleep. */
bool frontend_serve(struct frontend *f);
/* Once a loop turn: writes what was gathered, lets go of connections that have ended. True where there is more to write
 * at once: the loop must not sleep. */
bool frontend_flush(struct frontend *f);
/* After it: reads from a client that was answered, alone in this turn, and has nothing else open. False: there was
 * nothing to read, or no such client. The turn goes on as if that had come before. */
bool frontend_read_on(struct frontend *f);
/* Tells every client that wsd is draining. */
void frontend_goodbye(struct frontend *f);
/* At the end, where options.keeps says so: answers what only this wsd can, and gives what the next one needs to go on
 * with the connections: a sealed memory file, which becomes the caller's, and their descriptors, which stay the
 * frontend's; the caller frees the array. */
int frontend_leave(struct frontend *f, int *ret_state, int **ret_fds, size_t *ret_n);
/* The same, in the next one, after jobs_start(): takes all descriptors. 0 or a negative errno: what could not be
 * understood is closed. */
int frontend_take(struct frontend *f, int state, int *fds, size_t n, size_t *ret_taken);
/* Everything that was to be said has been written. */
bool frontend_quiet(const struct frontend *f);
/* Other limits from now on; connections that are there stay. */
void frontend_set_limits(struct frontend *f, const struct frontend_limits *limits);
/* Other rules from the next request on, also of connections that are there. The caller's, as those of the options. */
void frontend_set_rules(struct frontend *f, const struct access_rules *rules);
