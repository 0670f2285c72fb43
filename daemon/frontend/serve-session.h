/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-session.h: HELLO, PING, STATS. [loop]
 */
#pragma once

#include "frontend/call.h"

#include "frontend/handover.h"

void serve_hello(struct request *r);
void serve_ping(struct request *r);
void serve_stats(struct request *r);
/* Takes over a connection that another wsd has greeted. False: it cannot go on, and is closed. */
bool session_take(struct peer *p, const struct handover_peer *k, const char *directory);
