/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/adapters/libuv.h: a handle of libwsclient in a loop of libuv. Header only: link wsclient and uv. Since 0.1.
 *
 *     struct wsd_libuv *w;
 *
 *     wsd_libuv_attach(&w, loop, client);
 *     uv_run(loop, UV_RUN_DEFAULT);
 *
 * What is submitted in a turn leaves together, before the loop waits. Deadlines and connecting again (WSD_OPEN_AGAIN)
 * need nothing else. The loop goes on while a handle is attached. One thread: that of the loop and of the handle.
 */
#ifndef WSD_ADAPTERS_LIBUV_H
#define WSD_ADAPTERS_LIBUV_H

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <uv.h>
#include <wsd/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One handle. Its fields are the adapter's. */
struct wsd_libuv {
    struct wsd_client *client; /* NULL: detached */
    uv_loop_t *loop;
    uv_poll_t *io; /* NULL: there is no descriptor. One each, since libuv closes it later */
    uv_prepare_t turn;
    uv_idle_t awake; /* while turn is due: the loop does not wait before it */
    uv_timer_t timer;
    short events; /* that io waits for, as of poll(2) */
    int busy;     /* in a call of the adapter: it looks at the handle itself afterwards */
    int n_open;   /* of turn, awake and timer, that libuv has not closed yet */
};

static inline void wsd_libuv_run_(struct wsd_libuv *w, int process);

static inline void wsd_libuv_io_(uv_poll_t *io, int status, int events)
{
    struct wsd_libuv *w = (struct wsd_libuv *)io->data;

    (void)events;
    if (status < 0)
        w->events = 0; /* libuv has stopped it */
    wsd_libuv_run_(w, 1);
}

static inline void wsd_libuv_timer_(uv_timer_t *timer)
{
    wsd_libuv_run_((struct wsd_libuv *)timer->data, 1);
}

static inline void wsd_libuv_turn_(uv_prepare_t *turn)
{
    struct wsd_libuv *w = (struct wsd_libuv *)turn->data;

    uv_prepare_stop(turn);
    uv_idle_stop(&w->awake);
    wsd_libuv_run_(w, 0);
}

static inline void wsd_libuv_awake_(uv_idle_t *awake)
{
    (void)awake;
}

static inline void wsd_libuv_io_closed_(uv_handle_t *io)
{
    free(io);
}

static inline void wsd_libuv_drop_io_(struct wsd_libuv *w)
{
    if (!w->io)
        return;
    uv_poll_stop(w->io);
    uv_close((uv_handle_t *)w->io, wsd_libuv_io_closed_);
    w->io = NULL;
    w->events = 0;
}

/* The descriptor is a new one. */
static inline void wsd_libuv_new_io_(struct wsd_libuv *w, int fd)
{
    w->io = (uv_poll_t *)malloc(sizeof(*w->io));
    if (w->io && uv_poll_init(w->loop, w->io, fd) < 0) {
        free(w->io);
        w->io = NULL;
    }
    if (w->io)
        w->io->data = w;
}

/* Watches what the handle wants watched. Without memory it is tried again in a while. */
static inline void wsd_libuv_arm_(struct wsd_libuv *w)
{
    uint64_t usec = wsd_client_timeout_usec(w->client), msec = usec / 1000 + (usec % 1000 != 0);
    short events = wsd_client_events(w->client);
    int fd = wsd_client_fd(w->client);

    if (fd >= 0 && !w->io)
        wsd_libuv_new_io_(w, fd);
    if (fd >= 0 && w->io && events != w->events) {
        uv_poll_start(w->io, (events & POLLIN ? UV_READABLE : 0) | (events & POLLOUT ? UV_WRITABLE : 0), wsd_libuv_io_);
        w->events = events;
    }
    if (fd >= 0 && !w->io && msec > 100)
        usec = msec = 100;
    if (usec == UINT64_MAX)
        uv_timer_stop(&w->timer);
    else
        uv_timer_start(&w->timer, wsd_libuv_timer_, msec, 0);
}

static inline void wsd_libuv_run_(struct wsd_libuv *w, int process)
{
    w->busy++;
    if (process)
        wsd_client_process(w->client);
    else
        wsd_client_flush(w->client);
    w->busy--;
    if (w->client)
        wsd_libuv_arm_(w);
}

static inline void wsd_libuv_watch_(int fd, short events, uint64_t timeout_usec, void *userdata)
{
    struct wsd_libuv *w = (struct wsd_libuv *)userdata;

    (void)timeout_usec;
    if (!events && fd >= 0)
        wsd_libuv_drop_io_(w);
    if (w->busy)
        return;
    uv_prepare_start(&w->turn, wsd_libuv_turn_);
    uv_idle_start(&w->awake, wsd_libuv_awake_); /* this turn's may be over */
}

static inline void wsd_libuv_closed_(uv_handle_t *handle)
{
    struct wsd_libuv *w = (struct wsd_libuv *)handle->data;

    if (--w->n_open == 0)
        free(w);
}

/* Ends it, before the handle is freed; also in a callback. The memory goes in a later turn of the loop: run it once
 * more before you close it. */
static inline void wsd_libuv_detach(struct wsd_libuv *w)
{
    w->busy++;
    wsd_client_set_watch(w->client, NULL, NULL);
    w->busy--;
    w->client = NULL;
    wsd_libuv_drop_io_(w);
    uv_close((uv_handle_t *)&w->turn, wsd_libuv_closed_);
    uv_close((uv_handle_t *)&w->awake, wsd_libuv_closed_);
    uv_close((uv_handle_t *)&w->timer, wsd_libuv_closed_);
}

/* Begins. Returns 0 and sets *ret; -ENOMEM or -ECHILD. */
static inline int wsd_libuv_attach(struct wsd_libuv **ret, uv_loop_t *loop, struct wsd_client *client)
{
    struct wsd_libuv *w = (struct wsd_libuv *)calloc(1, sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    w->client = client;
    w->loop = loop;
    w->n_open = 3;
    uv_prepare_init(loop, &w->turn); /* none of them fails */
    uv_idle_init(loop, &w->awake);
    uv_timer_init(loop, &w->timer);
    w->turn.data = w->awake.data = w->timer.data = w;
    r = wsd_client_set_watch(client, wsd_libuv_watch_, w);
    if (r < 0)
        wsd_libuv_detach(w);
    else
        *ret = w;
    return r;
}

#ifdef __cplusplus
}
#endif

#endif
