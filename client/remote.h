/* SPDX-License-Identifier: Apache-2.0
 *
 * remote.h: the way to a wsd on another machine: TCP, and TLS over it. One thread a handle.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <netdb.h>
#include <sys/types.h>

#include "failure.h"
#include "tls/tls.h"
#include "waiting.h"
#include "wsd/client.h"

struct remote_wsd {
    bool there;                /* wsd is on another machine */
    struct wsd_tls place;      /* where; its texts are owned. NULL: by the environment */
    const struct tls_ops *ops; /* NULL until remote_connect() */
    struct tls_context *context;
    struct tls *tls;             /* the connection; NULL: there is none */
    struct addrinfo *all, *next; /* its addresses, and the one to try next */
};

/* It is the way from now on. Copies the texts. 0 or a negative errno, with words. */
int remote_init(struct remote_wsd *r, const struct wsd_tls *tls, struct failure *failure);
void remote_deinit(struct remote_wsd *r);
/* Returns a descriptor, or a negative errno with words. The handshake comes with the first bytes. */
int remote_connect(struct remote_wsd *r, const struct waiting *waiting, uint64_t deadline_usec,
                   struct failure *failure);
/* The same without waiting, but for the name of the host: a descriptor that is being connected, */
int remote_begin(struct remote_wsd *r, struct failure *failure);
/* which has come so far: 0, -EINPROGRESS, or why it has failed; */
int remote_connected(int fd);
/* another one, where that has failed with this error; */
int remote_next(struct remote_wsd *r, int error, struct failure *failure);
/* TLS over it, where it has not. 0 or a negative errno, said. */
int remote_secure(struct remote_wsd *r, int fd, struct failure *failure);
/* The descriptor is the caller's to close. */
void remote_disconnect(struct remote_wsd *r);
