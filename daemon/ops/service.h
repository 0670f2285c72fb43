/* SPDX-License-Identifier: Apache-2.0
 *
 * service.h: wsd as a service: signals, readiness, watchdog, drain. [loop]
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct service;

struct service_options {
    struct event_base *base;
    void (*reload)(void *context); /* SIGHUP */
    void (*drain)(void *context);  /* the first SIGTERM or SIGINT */
    void (*end)(void *context);    /* the second */
    /* numbers of jobs, for the status line */
    void (*load)(void *context, uint64_t *ret_running, uint64_t *ret_waiting);
    void *context;
};

int service_new(struct service **ret_service, const struct service_options *options);
struct service *service_free(struct service *s);

/* Notifies systemd, if it started wsd. */
void service_ready(struct service *s);
void service_stopping(struct service *s, uint64_t limit_usec); /* it ends within that time */
void service_reloading(struct service *s);
/* Called once a turn of the loop while jobs are open: updates the status line, at most once a second. */
void service_busy(struct service *s);

/* --- descriptors that outlive us, with the service manager -------------------------------------------------------- */

/* What the last wsd left, and the listening sockets. Zeroed: nothing. The descriptors are the caller's. */
struct service_kept {
    int state;        /* -1: none */
    int *connections; /* the caller frees the array */
    size_t n_connections;
    int *listeners;
    size_t n_listeners;
    bool own_listener; /* the last wsd had made the listener */
};

/* Whether the service manager keeps descriptors for wsd: by FDSTORE, or by the unit's settings. */
bool service_keeps(void);
/* Takes what was handed over to this process. Returns 0 or a negative errno. */
int service_take(struct service_kept *ret);
void service_kept_deinit(struct service_kept *k); /* closes descriptors that were not taken (set to -1) */
/* Hands these to the service manager, and waits until it has them. Returns 0 or a negative errno. */
int service_leave(int state, const int *connections, size_t n_connections, int listener);
