/* SPDX-License-Identifier: Apache-2.0
 *
 * handshakes.h: connections that are not authenticated yet, by their origin. Everything here is [loop].
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
    struct hash origins; /* origins with handshakes */
    uint64_t n, n_heard;
};

/* The handshake of one connection. */
struct handshake {
    struct list link;
    struct origin *origin; /* NULL: over, or not begun */
    struct peer *peer;
    bool heard; /* a whole message has come */
};

void handshakes_init(struct handshakes *h);
void handshakes_deinit(struct handshakes *h);

/* Returns the origin of an address. For IPv4 that is the address. For IPv6 it is the first 64 bits, since a host has as
 * many addresses below them as it likes. All of 127.0.0.0/8 is one origin, since it is one machine. */
uint64_t handshake_origin(const struct sockaddr_storage *a);

/* Returns 0 or -ENOMEM. */
int handshake_begin(struct handshakes *h, struct handshake *one, struct peer *p, uint64_t origin);
/* A whole message has come. Allowed after the handshake's end. */
void handshake_heard(struct handshakes *h, struct handshake *one);
/* Allowed after the handshake's end. */
void handshake_end(struct handshakes *h, struct handshake *one);
/* When the limit is reached: returns the handshake that a new one of this origin replaces. NULL: none. */
struct handshake *handshakes_give_way(const struct handshakes *h, uint64_t origin);
