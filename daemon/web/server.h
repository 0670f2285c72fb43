/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h: the HTTP side: the page, /metrics and /api, by libevent's evhttp. [loop]
 */
#pragma once

#include <stdbool.h>

#include "web/fleet-look.h"
#include "web/guard.h"

struct server;
struct event_base;
struct history;

#define SERVER_SERIES      11u   /* in the history. Another meaning of one wants another HISTORY_MAGIC */
#define SERVER_STREAMS     32u   /* pages that are told each look */
#define SERVER_WAITERS     256u  /* requests that wait for an answer of wsd */
#define SERVER_CONNECTIONS 900u  /* more wait until one ends */
#define SERVER_BODY        4096u /* bytes of a request */
#define SERVER_HEADERS     8192u

struct server_options {
    struct event_base *base;
    struct guard *guard;
    const char *socket;                     /* of wsd; NULL: as wsctl finds it */
    const struct fleet_look_options *fleet; /* NULL: it is not shown */
    const char *chart;                      /* the file of Chart.js */
    struct history *history;                /* of SERVER_SERIES series */
    bool always;                            /* looks each second, whether anybody watches or not */
};

/* Returns 0 or a negative errno. */
int server_new(struct server **ret, const struct server_options *options);
/* Takes connections of a listening socket, which is the server's from now on. Returns 0 or -ENOMEM. */
int server_listen(struct server *s, int fd);
/* NULL is fine. Returns NULL. */
struct server *server_free(struct server *s);
