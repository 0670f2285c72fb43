/* SPDX-License-Identifier: Apache-2.0
 *
 * identity.h: the groups of a user. [loop]
 */
#pragma once

#include <event2/event.h>
#include <stdint.h>

#include "spawner/packet.h"

struct identity {
    int error; /* 0; a negative errno: the user database could not be asked, and nothing is known */
    uint32_t gid;
    uint32_t n_groups; /* may exceed SPAWN_GROUPS_MAX: then groups[] does not have all */
    uint32_t groups[SPAWN_GROUPS_MAX];
};

struct identity_question;

/* Asks the user database, off the loop. `answer` is called later, from the loop, unless the question is forgotten; it
 * ends the question. Groups below first_id are left out. An unknown user, or one without other groups, has
 * SPAWN_NO_GROUP. Returns 0 or a negative errno. */
int identity_ask(struct event_base *base, uint32_t uid, uint32_t first_id,
                 void (*answer)(const struct identity *i, void *context), void *context,
                 struct identity_question **ret_question);
/* NULL is fine; returns NULL. */
struct identity_question *identity_forget(struct identity_question *q);
/* Discards answers still to come. No question may be left. [at the end] */
void identity_forget_all(void);
