/* SPDX-License-Identifier: Apache-2.0
 *
 * remote.h: clients of other machines. Everything here is [loop].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frontend/handshakes.h"
#include "tls/tls.h"

#define REMOTE_ERROR     512u
#define REMOTE_WHY       1024u
#define REMOTE_USERS_MAX 4096u /* lines of a user map */

struct frontend;
struct peer;

/* Files: those of struct tls_options, and the user map. */
struct remote_options {
    const char *certificate, *key, *ca, *crl; /* crl NULL: nothing is revoked */
    const char *user_map;
};

/* Certificates and users as read from the files. */
struct remote;

/* Reads the files. Returns 0, or a negative errno with the words. */
int remote_load(struct remote **ret, const struct remote_options *o, char error[REMOTE_ERROR]);
struct remote *remote_free(struct remote *r); /* NULL is fine */

/* --- for the frontend --------------------------------------------------------------------------------------------- */

/* Fields of connections from other machines only. */
struct remote_peer {
    struct tls *tls;
    const struct tls_ops *ops;
    const struct remote_user *user; /* NULL: the handshake is not over */
    struct handshake handshake;
    uint64_t reading; /* number of the reading of the files that it was opened with */
    int64_t expires;  /* when its certificate expires, in seconds since the epoch */
    char address[64], name[TLS_NAME_MAX];
};

/* Whether a connection from there may begin. May end another one for it. */
bool remote_has_room(struct frontend *f, const struct sockaddr_storage *from);
/* Returns 0 or -ENOMEM. The descriptor stays the peer's. */
int remote_open(struct peer *p);
void remote_close(struct peer *p); /* frees what remote_open() made */
/* As recvmsg() and sendmsg() of a peer, without descriptors. */
ssize_t remote_recv(struct peer *p, void *data, size_t size);
ssize_t remote_send(struct peer *p, const void *data, size_t size);
/* Called when the handshake is over: sets the peer's uid and gid by its certificate. Returns NULL, or the words of a
 * refusal. */
const char *remote_identify(struct peer *p);
bool remote_expired(const struct peer *p);
/* Looks the client up again, in the files that hold from now on. False: why not, behind the words "the certificate". */
bool remote_stays(struct peer *p, const struct remote *r, char why[static REMOTE_WHY]);
