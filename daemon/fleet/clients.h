/* SPDX-License-Identifier: Apache-2.0
 *
 * clients.h: clients of the local wsd that act for its users, one for each user with jobs that are held. [loop]
 */
#pragma once

#include <stdint.h>

#include "base/list.h"

#define CLIENTS_MAX       64u       /* users at once */
#define CLIENTS_IDLE_USEC 60000000u /* a client goes that no job has needed for so long */

struct client;
struct clients;
struct event_base;
struct wsd_client;

/* A job's use of a client. Embedded in the job. */
struct client_use {
    struct list link;
    struct client *client; /* NULL: it uses none */
    /* Once, unless clients_take() said that it is there. error 0: it is connected. -EACCES: wsd refuses it for good, in
     * these words. -EAGAIN: it cannot connect now. May leave. */
    void (*told)(struct client_use *u, int error, const char *words);
};

/* socket: of wsd; NULL: as for wsd_client_open(). Returns 0 or -ENOMEM. */
int clients_new(struct clients **ret_clients, struct event_base *base, const char *socket);
struct clients *clients_free(struct clients *c); /* of which nothing is used any more. NULL is fine */
/* Uses the client of this user. Returns 0: it is connected; -EINPROGRESS: told() is called later; -EBUSY: CLIENTS_MAX
 * are in use; or another negative errno. */
int clients_take(struct clients *c, struct client_use *u, const char *user);
struct wsd_client *client_handle(const struct client_use *u);
void client_leave(struct client_use *u); /* allowed where it uses none */
/* To be called often: frees those that are of no use any more. */
void clients_tick(struct clients *c, uint64_t now_usec);
uint32_t clients_count(const struct clients *c);
