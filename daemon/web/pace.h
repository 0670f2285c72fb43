/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.h: how fast a client has to send and to take. A connection that is slower ends as if the client had ended it.
 * [loop]
 */
#pragma once

#include <event2/util.h>

struct bufferevent;

#define PACE_IDLE        15            /* seconds after which a connection that does nothing, or a request, ends */
#define PACE_AHEAD       (64u * 1024u) /* bytes that a client may send before its request is answered */
#define PACE_LEAST       1024u /* bytes a second that a client has to take, over PACE_IDLE in which some wait for it */
#define PACE_KEPT        (32u * 1024u) /* bytes that the kernel keeps for a client; it goes on when a third is taken */
#define PACE_DESCRIPTORS 1000u         /* a connection whose descriptor is this or above ends at once */

/* Watches a connection from now on, whose descriptor may not be known yet. */
void pace_watch(struct bufferevent *connection);
/* Its request is whole. Another descriptor, and -1, is fine. */
void pace_whole(evutil_socket_t fd);
