/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c: connections that hold up others.
 * Owns what is known of each connection by its descriptor, which is the process's.
 * Keeps: a connection is shut down if its request does not come to an end, or if it sends more than is read.
 * Does not know what a request is, or whether a connection does nothing (evhttp's timeout). */
#include "web/pace.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* By descriptor: when the first byte of a request came that is not whole yet; 0: there is none. */
static uint64_t begun_usec[PACE_DESCRIPTORS];

void pace_whole(evutil_socket_t fd)
{
    if (fd >= 0 && fd < (int)ARRAY_SIZE(begun_usec))
        begun_usec[fd] = 0;
}

/* Its connection ends as if the client had ended it. Called before evhttp looks at the bytes. */
static void on_bytes(struct evbuffer *input, const struct evbuffer_cb_info *info, void *userdata)
{
    evutil_socket_t fd = bufferevent_getfd(userdata);
    uint64_t now = clock_monotonic_usec();

    if (info->n_added == 0 || fd < 0)
        return;
    if (fd >= (int)ARRAY_SIZE(begun_usec) || evbuffer_get_length(input) > PACE_AHEAD)
        shutdown(fd, SHUT_RDWR);
    else if (!begun_usec[fd])
        begun_usec[fd] = now;
    else if (now - begun_usec[fd] > PACE_IDLE * UINT64_C(1000000))
        shutdown(fd, SHUT_RDWR);
}

/* Of a connection: its descriptor may have been another one's. */
static void on_first_bytes(struct evbuffer *input, const struct evbuffer_cb_info *info, void *userdata)
{
    evutil_socket_t fd = bufferevent_getfd(userdata);

    evbuffer_remove_cb(input, on_first_bytes, userdata);
    evbuffer_add_cb(input, on_bytes, userdata);
    pace_whole(fd);
    on_bytes(input, info, userdata);
}

void pace_watch(struct bufferevent *connection)
{
    evbuffer_add_cb(bufferevent_get_input(connection), on_first_bytes, connection);
}
