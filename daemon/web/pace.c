/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.c: connections that hold up others.
 * Owns what is known of each connection by its descriptor, which is the process's.
 * Keeps: a connection is shut down if its request does not come to an end, if it sends more than is read, or if it takes
 * answers too slowly. What the kernel keeps for it is little, so that the kernel says early what has been taken.
 * Does not know what a request is, or whether a connection does nothing (evhttp's timeout). */
#include "web/pace.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define IDLE_USEC (PACE_IDLE * UINT64_C(1000000))

/* By descriptor. */
static struct pace {
    uint64_t begun_usec; /* when the first byte of a request came that is not whole yet; 0: there is none */
    /* Of answers, looks among them. A measure is PACE_IDLE long, and only the time counts in which some wait. */
    uint64_t since_usec; /* since when they wait, or have waited since some were taken last; 0: none wait */
    uint64_t waited_usec, taken;
} paces[PACE_DESCRIPTORS];

/* NULL: it is closed, or beyond the limit. */
static struct pace *pace_of(evutil_socket_t fd)
{
    return fd >= 0 && fd < (int)ARRAY_SIZE(paces) ? &paces[fd] : NULL;
}

void pace_whole(evutil_socket_t fd)
{
    struct pace *p = pace_of(fd);

    if (p)
        p->begun_usec = 0;
}

/* Called before evhttp looks at the bytes. */
static void on_bytes(struct evbuffer *input, const struct evbuffer_cb_info *info, void *userdata)
{
    evutil_socket_t fd = bufferevent_getfd(userdata);
    struct pace *p = pace_of(fd);
    uint64_t now = clock_monotonic_usec();

    if (info->n_added == 0 || fd < 0)
        return;
    if (!p || evbuffer_get_length(input) > PACE_AHEAD)
        shutdown(fd, SHUT_RDWR);
    else if (!p->begun_usec)
        p->begun_usec = now;
    else if (now - p->begun_usec > IDLE_USEC)
        shutdown(fd, SHUT_RDWR);
}

/* The kernel has taken some of an answer, or some was added. One that takes nothing is evhttp's to close. */
static void on_answer(struct evbuffer *output, const struct evbuffer_cb_info *info, void *userdata)
{
    evutil_socket_t fd = bufferevent_getfd(userdata);
    struct pace *p = pace_of(fd);
    uint64_t now = clock_monotonic_usec();

    if (!p)
        return;
    if (p->since_usec && info->n_deleted > 0) {
        p->waited_usec += now - p->since_usec;
        p->taken += info->n_deleted;
        p->since_usec = now;
    }
    if (evbuffer_get_length(output) == 0)
        p->since_usec = 0;
    else if (!p->since_usec)
        p->since_usec = now;
    if (p->waited_usec <= IDLE_USEC)
        return;
    if (p->taken < (uint64_t)PACE_IDLE * PACE_LEAST)
        shutdown(fd, SHUT_RDWR);
    p->waited_usec = p->taken = 0;
}

/* Of a connection: its descriptor may have been another one's. */
static void on_first_bytes(struct evbuffer *input, const struct evbuffer_cb_info *info, void *userdata)
{
    evutil_socket_t fd = bufferevent_getfd(userdata);
    struct pace *p = pace_of(fd);

    evbuffer_remove_cb(input, on_first_bytes, userdata);
    evbuffer_add_cb(input, on_bytes, userdata);
    evbuffer_add_cb(bufferevent_get_output(userdata), on_answer, userdata);
    if (p)
        *p = (struct pace){.begun_usec = 0};
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){PACE_KEPT}, sizeof(int));
    on_bytes(input, info, userdata);
}

void pace_watch(struct bufferevent *connection)
{
    evbuffer_add_cb(bufferevent_get_input(connection), on_first_bytes, connection);
}
