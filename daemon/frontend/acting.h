/* SPDX-License-Identifier: Apache-2.0
 *
 * acting.h: connections that act for another user of this machine. Everything here is [loop].
 *
 * HELLO names the user. From WELCOME on the connection is that user's, with the right to submit and no other one.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "frontend/local-user.h"

#define ACTING_LOOKUPS 8u /* at once, with those that have lost their connection: each has a thread */

struct acting_lookup;
struct frontend;
struct peer;

struct actings {
    struct list lookups;
    uint32_t n_lookups;
};

/* A connection's part. */
struct acting {
    uint32_t by; /* the user that has connected */
    struct local_user user;
    struct acting_lookup *lookup; /* NULL: it is over */
    char name[];
};

void actings_init(struct actings *a);
void actings_deinit(struct actings *a);

/* Looks the user up. found() is called later: error is 0, or as local_user_find() says. Returns 0; -EBUSY: as many as
 * may be are looked up; or another negative errno. */
int acting_ask(struct peer *p, const char *name, void (*found)(struct peer *p, int error));
/* The connection is from now on that of the user that found() has told. Its share and quota are the caller's. */
void acting_begin(struct peer *p);
/* found() is not called any more. Allowed where nothing is looked up. */
void acting_forget(struct peer *p);
struct acting *acting_free(struct acting *a); /* NULL is fine */
