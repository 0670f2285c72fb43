/* SPDX-License-Identifier: Apache-2.0
 *
 * service.h: wsd as a service: signals, readiness, watchdog, drain. [loop]
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

struct service;

struct service_options {
    struct event_base *base;
    void (*reload)(void *context);    /* SIGHUP */
    void (*drain)(void *context);     /* the first SIGTERM or SIGINT */
    void (*end)(void *context);       /* the second */
    void *context;
};

int service_new(struct service **ret_service, const struct service_options *options);
struct service *service_free(struct service *s);

/* Told to systemd, where it started us. */
void service_ready(struct service *s, const char *status);
void service_stopping(struct service *s);
void service_reloading(struct service *s);
