/* SPDX-License-Identifier: Apache-2.0
 *
 * connecting.h: the beginning of a connection: the way to wsd, and the handshake. One thread a handle.
 */
#pragma once

#include "connection.h"

/* To where wsd is, with the handshake. 0 or a negative errno, said; then it is over. */
int connection_connect(struct connection *c, uint64_t deadline_usec);
/* The same again after its end, and until the deadline as long as wsd is not there. 0: also where it had not ended. */
int connection_reconnect(struct connection *c, uint64_t deadline_usec);

/* Begins without waiting; connection_advance() goes on, until it is welcomed or broken. It is as before the first
 * connection. It breaks at the deadline. */
void connection_begin(struct connection *c, uint64_t deadline_usec);
/* Goes on with what was begun. Before the connection is processed. */
void connection_advance(struct connection *c);
