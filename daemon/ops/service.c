/* SPDX-License-Identifier: Apache-2.0
 *
 * service.c: what a service manager and an administrator see.
 * Owns the signal events, the watchdog timer and that of the status line. [loop]
 * Keeps: without a watchdog an idle wsd has no timer of this file's.
 * Does not decide what a drain is. */
#include "ops/service.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define LEAVE_USEC 5000000u /* for the service manager to have what we leave */

struct service {
    struct service_options options;
    struct event *signals[3];
    struct event *watchdog, *status;
    bool draining, told; /* told: systemd listens */
};

static void on_signal(evutil_socket_t number, short what, void *userdata)
{
    struct service *s = userdata;

    if (number == SIGHUP) {
        s->options.reload(s->options.context);
    } else if (!s->draining) {
        s->draining = true;
        s->options.drain(s->options.context);
    } else {
        s->options.end(s->options.context);
    }
}

static void on_watchdog(evutil_socket_t fd, short what, void *userdata)
{
    sd_notify(0, "WATCHDOG=1");
}

static int watchdog_start(struct service *s)
{
    uint64_t usec;

    if (sd_watchdog_enabled(0, &usec) <= 0)
        return 0;
    struct timeval t = {.tv_sec = (time_t)(usec / 2 / 1000000), .tv_usec = (suseconds_t)(usec / 2 % 1000000)};
    s->watchdog = event_new(s->options.base, -1, EV_PERSIST, on_watchdog, s);
    return s->watchdog && event_add(s->watchdog, &t) == 0 ? 0 : -ENOMEM;
}

/* Repeats as long as jobs are open. */
static void on_status(evutil_socket_t fd, short what, void *userdata)
{
    struct service *s = userdata;
    uint64_t running, waiting;

    s->options.load(s->options.context, &running, &waiting);
    sd_notifyf(0, "STATUS=%s: %" PRIu64 " jobs running, %" PRIu64 " waiting", s->draining ? "draining" : "ready",
               running, waiting);
    if (running + waiting)
        service_busy(s);
}

void service_busy(struct service *s)
{
    const struct timeval t = {.tv_sec = 1};

    if (s->told && !evtimer_pending(s->status, NULL))
        evtimer_add(s->status, &t); /* no memory: at the next turn */
}

int service_new(struct service **ret_service, const struct service_options *options)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    struct service *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->options = *options;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        s->signals[i] = evsignal_new(options->base, numbers[i], on_signal, s);
        if (!s->signals[i] || event_add(s->signals[i], NULL) < 0) {
            service_free(s);
            return -ENOMEM;
        }
    }
    s->told = getenv("NOTIFY_SOCKET");
    s->status = evtimer_new(options->base, on_status, s);
    if (!s->status || watchdog_start(s) < 0) {
        service_free(s);
        return -ENOMEM;
    }
    *ret_service = s;
    return 0;
}

struct service *service_free(struct service *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(s->signals); i++)
        if (s->signals[i])
            event_free(s->signals[i]);
    if (s->watchdog)
        event_free(s->watchdog);
    if (s->status)
        event_free(s->status);
    free(s);
    return NULL;
}

void service_ready(struct service *s)
{
    sd_notify(0, "READY=1\nSTATUS=ready");
}

void service_stopping(struct service *s, uint64_t limit_usec)
{
    sd_notifyf(0,
               "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64
               "\nSTATUS=draining: running and queued jobs end, new ones are refused",
               limit_usec);
}

void service_reloading(struct service *s)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_monotonic_usec());
}

/* --- descriptors that outlive us ---------------------------------------------------------------------------------- */

#define NAME_STATE      "kept"
#define NAME_CONNECTION "c" /* all names stand in one variable of the environment, which has an end */
#define NAME_LISTENER   "listener"
#define BATCH           253u /* descriptors that one message can carry */

bool service_keeps(void)
{
    const char *room = getenv("FDSTORE");

    return getenv("NOTIFY_SOCKET") && room && strtoul(room, NULL, 10) > 0;
}

/* After the descriptors were taken: has the service manager drop its copies, so that closing one here closes it. */
static void forget_stored(void)
{
    sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" NAME_CONNECTION);
    sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" NAME_STATE);
    sd_notify(0, "FDSTOREREMOVE=1\nFDNAME=" NAME_LISTENER);
}

int service_take(struct service_kept *ret)
{
    _cleanup_(freep) char **names = NULL;
    struct service_kept k = {.state = -1};
    int n = sd_listen_fds_with_names(1, &names);

    if (n <= 0) {
        *ret = k;
        return n;
    }
    k.connections = malloc((size_t)n * sizeof(int));
    k.listeners = malloc((size_t)n * sizeof(int));
    for (int i = 0; i < n; i++) {
        int fd = SD_LISTEN_FDS_START + i;

        if (!k.connections || !k.listeners) {
            close_fd(fd);
        } else if (strcmp(names[i], NAME_CONNECTION) == 0) {
            k.connections[k.n_connections++] = fd;
        } else if (strcmp(names[i], NAME_STATE) == 0) {
            close_fd(k.state);
            k.state = fd;
        } else {
            k.own_listener |= strcmp(names[i], NAME_LISTENER) == 0;
            k.listeners[k.n_listeners++] = fd;
        }
        free(names[i]);
    }
    if (!k.connections || !k.listeners) {
        service_kept_deinit(&k);
        return -ENOMEM;
    }
    if (k.n_connections || k.state >= 0 || k.own_listener)
        forget_stored();
    *ret = k;
    return 0;
}

void service_kept_deinit(struct service_kept *k)
{
    for (size_t i = 0; i < k->n_connections; i++)
        close_fd(k->connections[i]);
    for (size_t i = 0; i < k->n_listeners; i++)
        close_fd(k->listeners[i]);
    close_fd(k->state);
    free(k->connections);
    free(k->listeners);
    *k = (struct service_kept){.state = -1};
}

static int store_descriptors(const char *name, const int *fds, size_t n)
{
    char text[64];

    snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", name);
    for (size_t at = 0; at < n; at += BATCH) {
        int r = sd_pid_notify_with_fds(0, 0, text, fds + at, (unsigned int)MIN(n - at, (size_t)BATCH));

        if (r < 0)
            return r;
    }
    return 0;
}

int service_leave(int state, const int *connections, size_t n_connections, int listener)
{
    int r = store_descriptors(NAME_STATE, &state, state >= 0);

    if (r == 0)
        r = store_descriptors(NAME_CONNECTION, connections, n_connections);
    if (r == 0 && listener >= 0)
        r = store_descriptors(NAME_LISTENER, &listener, 1);
    if (r == 0)
        r = sd_notify_barrier(0, LEAVE_USEC);
    return r < 0 ? r : 0;
}
