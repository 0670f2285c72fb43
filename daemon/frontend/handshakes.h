/* SPDX-License-Identifier: Apache-2.0
 *
 * handshakes.h: connections that have not proved who they are, by where they come from. Everything here is [loop].
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "base/list.h"

struct peer;
struct origin;

struct handshakes {
    struct list all;     /* the oldest first */
    struct hash origins; /* those that have some */
    uint64_t n, n_heard;
};

/* Of a connection. */
struct handshake {
    struct list link;
    struct origin *origin; /* NULL: it is over, or has not begun */
    struct peer *peer;
    bool heard; /* a whole message has come */
};

void handshakes_init(struct handshakes *h);
void handshakes_deinit(struct handshakes *h);

/* What addresses of one origin share: that of IPv4; the first 64 bits of IPv6, within which a host has as many as it
 * likes; all of 127.0.0.0/8, which are one machine's. */
uint64_t handshake_origin(const struct sockaddr_storage *a);

/* 0 or -ENOMEM. */
int handshake_begin(struct handshakes *h, struct handshake *one, struct peer *p, uint64_t origin);
/* A whole message has come from there. Also right where it is over. */
void handshake_heard(struct handshakes *h, struct handshake *one);
/* Also right where it is over. */
void handshake_end(struct handshakes *h, struct handshake *one);
/* Where there are as many as there may be, another one of this origin takes the place of the one that this returns.
 * NULL: there is none. */
struct handshake *handshakes_give_way(const struct handshakes *h, uint64_t origin);
