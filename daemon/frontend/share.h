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
/* What a user may ask: so many units at once, and so many in a microsecond from then on. Above it the user rests. */
#define SHARE_ASKED 1000000
#define SHARE_ASKS  500

/* The share of one user, or of all connections that have no user yet. */
struct share {
    struct list turn;      /* in shares.waiting, while it has a ready connection; or in shares.resting */
    struct list ready;     /* connections with something to handle, the next one first */
    int64_t left;          /* units; below 0: a debt, which the next quanta pay off */
    struct list mark_turn; /* in shares.marking, while it has a marked connection */
    struct list marked;    /* connections that may have something to write, the next one first */
    int64_t asked;         /* units of questions, as of asked_usec */
    uint64_t asked_usec;   /* CLOCK_MONOTONIC */
    uint64_t rest_usec;    /* it is not served before that; 0: it does not rest */
};

struct shares {
    struct list waiting;    /* shares that have something to handle, the next one first */
    struct list resting;    /* shares that have asked too much */
    struct event *timer;    /* when the first of these has rested; NULL: shares_wake() is called otherwise */
    uint64_t n_rests;       /* so many times */
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
/* No connection uses the share any more. */
void share_end(struct share *s);
/* Charges its user for work done. */
void share_charge(struct peer *p, uint32_t units);
/* Its user asks a question: what takes wsd long for its size, and changes nothing. Where a user asks without end, wsd, its
 * threads for far ends and the user's own processes would keep all CPUs busy. Other users' processes would wait for a
 * CPU, however small a turn is. So such a user rests, with all that it wants. */
void share_ask(struct peer *p, uint32_t units);
/* Ends rests that are over, and sets the timer for the next one. */
void shares_wake(struct shares *s, uint64_t now_usec);
/* Whether its user has used up the share of this turn, or all users have, or it rests. */
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
