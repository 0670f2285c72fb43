/* SPDX-License-Identifier: Apache-2.0
 *
 * share.h: each user's share of a turn of the loop: deficit round robin over users. [loop]
 *
 * The unit of work is a nanosecond of an ordinary machine. A request counts as what it is expected to cost. Units are
 * never measured, so a turn holds the same work on every machine, and a test can count it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct peer;

#define SHARE_TURN    200000            /* units of a turn, all users together */
#define SHARE_QUANTUM 50000             /* units of a user before the next user's turn */
#define SHARE_DEBT    (10 * SHARE_TURN) /* the largest debt of a user, in units */
#define SHARE_MARKED  128u              /* connections that are written to in a turn */

/* The share of one user, or of all connections that have no user yet. */
struct share {
    struct list turn;      /* in shares.waiting, while it has a ready connection */
    struct list ready;     /* connections with something to handle, the next one first */
    int64_t left;          /* units; below 0: a debt, which the next quanta pay off */
    struct list mark_turn; /* in shares.marking, while it has a marked connection */
    struct list marked;    /* connections that may have something to write, the next one first */
};

struct shares {
    struct list waiting;    /* shares that have something to handle, the next one first */
    struct share strangers; /* handshakes, and connections that were refused */
    int64_t left;           /* units left in this turn */
    uint64_t units;         /* units of all turns */
    uint64_t most;          /* units of the largest turn */
    struct list marking;    /* shares that have a connection that is marked, the next one first */
    uint64_t n_marked;      /* marked connections */
};

void shares_init(struct shares *s);
void share_init(struct share *s);

/* The connection has something to handle. It is served in this turn or a later one. */
void share_want(struct peer *p);
/* Another user's share pays from now on. */
void share_move(struct peer *p, struct share *to);
/* The connection has nothing to handle now. Allowed where it had nothing. */
void share_drop(struct peer *p);
/* Charges its user for work done. */
void share_charge(struct peer *p, uint32_t units);
/* Whether its user has used up the share of this turn, or all users have. */
bool share_spent(const struct peer *p);
/* The connection is served outside of a turn, alone. */
void share_alone(struct peer *p);
/* The connection may have something to write, or has to be freed: looks at it in this turn or a later one. */
void share_mark(struct peer *p);
/* Removes the mark. Allowed where there is none. */
void share_unmark(struct peer *p);
/* Returns the next marked connection and removes its mark: one of each user in turn. NULL: none. */
struct peer *shares_next_marked(struct shares *s);
/* Serves connections until the turn's units are used up. True: some still wait. one() does the next piece of work of a
 * connection; where that was all, it calls share_drop(), and returns false. */
bool shares_serve(struct shares *all, bool (*one)(struct peer *p));
