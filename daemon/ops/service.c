/* SPDX-License-Identifier: Apache-2.0
 *
 * service.c: what a service manager and an administrator see.
 * Owns the signal events and the watchdog timer. [loop]
 * Keeps: without a watchdog an idle wsd has no timer of this file's.
 * Does not decide what a drain is. */
#include "ops/service.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "base/cleanup.h"
#include "base/clock.h"

struct service {
    struct service_options options;
    struct event *signals[3];
    struct event *watchdog;
    bool draining;
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
    if (watchdog_start(s) < 0) {
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
    free(s);
    return NULL;
}

void service_ready(struct service *s, const char *status)
{
    sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void service_stopping(struct service *s)
{
    sd_notify(0, "STOPPING=1\nSTATUS=draining: running and queued jobs end, new ones are refused");
}

void service_reloading(struct service *s)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_monotonic_usec());
}
