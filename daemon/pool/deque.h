/* SPDX-License-Identifier: Apache-2.0
 *
 * deque.h: one worker's task stack, split into a public old part and a private young part.
 *
 *      base            tail            split                top              soft        limit
 *       | stolen        | public        | private            | free           | not touched |
 *
 * The owner pushes and pops at top without asking anybody while it stays in the private part (inline, wsd/task.h).
 * Thieves take at tail. tail and split are one 64-bit word, so that every change of either is decided by one
 * compare-and-swap. A thief that takes the last public task sets a trap (hi, lo), so that the owner's next push or pop
 * publishes more; where the owner does not come by, deque_revoke_any() publishes for it.
 *
 *             | owner's inline push/pop | _owner | steal_any | revoke_any | hint_any
 *  inline     |     no (one thread)     |   no   |    yes    |    yes     |   yes
 *  _owner     |           no            |   no   |    yes    |    lock    |   yes
 *  steal_any  |          yes            |  yes   |    yes    |    yes     |   yes
 *  revoke_any |          yes            |  lock  |    yes    |    lock    |   yes
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wsd/task.h"

#define CACHE_LINE 64

/* Public at most so many at once: bounds the time under the lock and the lines that are touched. */
#define DEQUE_PUBLISH_MAX 256u
/* Slots are taken into use by so many (1 MiB), and given back to the kernel when the worker parks. */
#define DEQUE_CHUNK 16384u
/* 224 MiB of slots and 28 MiB of contexts, reserved and not touched. */
#define DEQUE_SLOTS 3670016u

/* State of a slot. Anything else is the thief, a struct worker. */
#define TASK_FREE ((uintptr_t)0)
#define TASK_DONE ((uintptr_t)1)

struct deque {
    /* [const after init] */
    struct wsd_worker *owner;
    struct wsd_task *base, *limit; /* limit itself is a slot too: scratch for what overflows */
    void **contexts;               /* by slot. [written under lock before the slot is public; read after stealing it] */
    size_t mapped;
    bool eager; /* no membarrier here: nothing is ever private */
    /* [owner] */
    struct wsd_task *soft;
    bool overflowed; /* results wait beside the stack: every push and pop asks */
    /* [lock] against revoke_any; word is changed by the owner or a revoker under it, by thieves without. */
    pthread_mutex_t lock;
    /* tail | split << 32. On a line of its own: thieves poll it.
     * [atomic: the owner's and revoker's release CAS publishes slots and contexts; partner is the thief's acquire CAS;
     * seq_cst where a trap must not be lost, see deque_bounds()] */
    _Alignas(CACHE_LINE) _Atomic uint64_t word;
};

/* slots 0: DEQUE_SLOTS. 0 or -ENOMEM. */
int deque_init(struct deque *d, struct wsd_worker *owner, uint32_t slots, bool eager);
void deque_deinit(struct deque *d);

/* After a push that found the bound: publishes if thieves have nothing, sets the bounds. False: the stack is full, and
 * the task is not pushed. *ret_published: wake somebody. [owner] */
bool deque_pushed_owner(struct deque *d, struct wsd_task *t, bool *ret_published);

/* After a pop that found the bound. True: the task is the owner's again. False: it was stolen; top is above it again.
 * [owner] */
bool deque_popped_owner(struct deque *d, struct wsd_task *t, bool *ret_published);

/* The stolen task on top was joined: takes it off. [owner] */
void deque_joined_owner(struct deque *d, struct wsd_task *t);

/* Sets or clears the state in which each push and pop asks. [owner] */
void deque_set_overflowed_owner(struct deque *d, bool overflowed);

/* Gives memory back to the kernel; the deque is empty. [owner] */
void deque_trim_owner(struct deque *d);

/* Takes the oldest public task and its context, or NULL. *ret_more: more are public. [any but the owner] */
struct wsd_task *deque_steal_any(struct deque *d, void **ret_context, bool *ret_more);

/* Publishes private tasks of an owner that does not come by. True: some are public now. [any but the owner] */
bool deque_revoke_any(struct deque *d);

/* Afterwards each owner has either seen every trap that was set before, or what he pushed before is visible. [any] */
void deque_settle(void);

/* Whether something is public; whether something is private (exact after deque_settle(), else a hint). [any] */
bool deque_has_public_any(const struct deque *d);
bool deque_has_private_any(const struct deque *d);

/* Registers the process for membarrier: without it deques must be eager. */
bool deque_revoke_available(void);
