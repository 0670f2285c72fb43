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

#define REMOTE_ERROR      512u
#define REMOTE_USERS_MAX  4096u /* lines of a user map */
#define REMOTE_GROUPS_MAX 1024u /* of a user */

struct frontend;
struct peer;

/* Files; those of struct tls_options, and who is who. */
struct remote_options {
    const char *certificate, *key, *ca, *crl; /* crl NULL: nothing is revoked */
    const char *user_map;
};

/* Certificates and users, as the files had them when they were read. */
struct remote;

/* Reads the files. 0, or a negative errno with the words. */
int remote_load(struct remote **ret, const struct remote_options *o, char error[REMOTE_ERROR]);
struct remote *remote_free(struct remote *r); /* NULL is fine */

/* From now on these hold. Connections whose certificate they refuse, or whose user is another one by them, end. Takes
 * r. */
void frontend_set_remote(struct frontend *f, struct remote *r);
/* Listens at HOST:PORT, [ADDRESS]:PORT or :PORT (all addresses). After frontend_set_remote(). 0, or a negative errno
 * with the words. */
int frontend_listen_remote(struct frontend *f, const char *where, char error[REMOTE_ERROR]);

/* --- for peer.c and access.c -------------------------------------------------------------------------------------- */

/* What a connection from another machine has beside what all have. */
struct remote_peer {
    struct tls *tls;
    const struct tls_ops *ops;
    const struct remote_user *user; /* NULL: the handshake is not over */
    struct handshake handshake;
    uint64_t reading; /* of the files that it was opened by */
    int64_t expires;  /* its certificate: seconds since the epoch */
    char address[64], name[TLS_NAME_MAX];
};

/* Whether a connection from there may begin: another one may have to go for it. */
bool remote_has_room(struct frontend *f, const struct sockaddr_storage *from);
/* -ENOMEM. The descriptor stays the peer's. */
int remote_open(struct peer *p);
void remote_close(struct peer *p); /* what remote_open() made */
/* As recvmsg() and sendmsg() of a peer, without descriptors. */
ssize_t remote_recv(struct peer *p, void *data, size_t size);
ssize_t remote_send(struct peer *p, const void *data, size_t size);
/* The handshake is over: whose certificate it is becomes the peer's uid and gid. NULL, or the words of a refusal. */
const char *remote_identify(struct peer *p);
uint32_t remote_groups(const struct peer *p, const uint32_t **ret); /* all of the user's */
bool remote_expired(const struct peer *p);
