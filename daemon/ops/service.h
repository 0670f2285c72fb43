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
    void (*reload)(void *context);                                             /* SIGHUP */
    void (*drain)(void *context);                                              /* the first SIGTERM or SIGINT */
    void (*end)(void *context);                                                /* the second */
    void (*load)(void *context, uint64_t *ret_running, uint64_t *ret_waiting); /* jobs, for the status line */
    void *context;
};

int service_new(struct service **ret_service, const struct service_options *options);
struct service *service_free(struct service *s);

/* Told to systemd, where it started us. */
void service_ready(struct service *s);
void service_stopping(struct service *s, uint64_t limit_usec); /* it ends within that time */
void service_reloading(struct service *s);
/* Once a turn of the loop, while something is open: the status line says how much, at most once a second. */
void service_busy(struct service *s);

/* --- descriptors that outlive us, with the service manager -------------------------------------------------------- */

/* What the last wsd left, beside the listening sockets. Zeroed: nothing. The descriptors are the caller's. */
struct service_kept {
    int state;        /* -1: none */
    int *connections; /* the caller frees the array */
    size_t n_connections;
    int *listeners;
    size_t n_listeners;
    bool own_listener; /* the last wsd had made it */
};

/* Whether the service manager keeps descriptors for us: it says so by FDSTORE, or its unit does for it. */
bool service_keeps(void);
/* What was handed over to this process. 0 or a negative errno. */
int service_take(struct service_kept *ret);
void service_kept_deinit(struct service_kept *k); /* closes what was not taken (-1) */
/* Leaves that, and waits for the service manager to have it. 0 or a negative errno. */
int service_leave(int state, const int *connections, size_t n_connections, int listener);
