/* SPDX-License-Identifier: Apache-2.0
 *
 * actions.h: the last actions of administrators and of persons, in a room that does not grow. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/codec.h"

/* So many of those with rights over others are kept, and as many of other users, which never push out the former. A
 * busy administrator does some tens a day by hand. Both take 300 KiB, once they are full. */
#define ACTIONS_KEPT 256u

struct action {
    uint64_t number;    /* counts up from 1, over all */
    uint64_t time_usec; /* since the epoch */
    const char *verb;   /* a constant */
    uint32_t uid;       /* of the client */
    uint32_t code;      /* CODE_…, with which it was refused; 0: it was not, or not yet */
    bool trusted;       /* asked for by a user with rights over others */
    /* The person that the client names, and what it is about: one line each, as escape_marked(); "": none. */
    char person[CODEC_PERSON_MAX], object[CODEC_TEXT_MAX];
};

enum action_ring { ACTIONS_OTHER, ACTIONS_TRUSTED, ACTION_RINGS };

struct actions {
    struct action *kept; /* ACTION_RINGS times ACTIONS_KEPT; NULL: none yet */
    uint64_t n[ACTION_RINGS];
};

void actions_deinit(struct actions *a);
/* Keeps a copy, in place of the oldest of its ring where that is full. Returns its number; 0: there is no memory. */
uint64_t actions_add(struct actions *a, const struct action *one);
/* The action with this number was refused. Does nothing if it is not kept, or for 0. */
void actions_refused(struct actions *a, uint64_t number, uint32_t code);
/* Returns the oldest one with a higher number, which is valid until the next actions_add(). NULL: there is none. */
const struct action *actions_next(const struct actions *a, uint64_t number);
