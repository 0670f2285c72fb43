/* SPDX-License-Identifier: Apache-2.0
 *
 * deque.h: one worker's task stack, split into a public old part and a private young part.
 *
 *      base            tail            split                top              hi          limit
 *       | stolen        | public        | private            | free           | not touched |
 *
 * The owner pushes and pops at top without asking anybody while it stays in the private part (inline, wsd/task.h).
 * Thieves take at tail. tail and split are one 64-bit word, so that every change of either is decided by one
 * compare-and-swap. A thief that takes the last public task sets a trap (hi, lo), so that the owner's next push or pop
 * publishes more; where the owner does not come by, deque_revoke_any() publishes for it.
 *
 * The owner keeps DEQUE_WINDOW tasks that nobody has stolen. Beyond them a push says no, as on a full stack, and the
 * child runs inside its spawn: thieves have enough to take, and the tasks stay in the cache.
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
/* Tasks that are kept and not stolen (512 KiB), and so many more for each child that runs inside its spawn, so that its
 * own children need not. */
#define DEQUE_WINDOW 8192u
#define DEQUE_NEST   256u
/* What is touched above so many slots (1 MiB) is given back to the kernel when the worker parks. */
#define DEQUE_CHUNK 16384u
/* 224 MiB of slots and 28 MiB of contexts, reserved and not touched. */
#define DEQUE_SLOTS 3670016u

/* State of a slot. Anything else is the thief, a struct worker. */
#define TASK_FREE ((uintptr_t)0)
#define TASK_DONE ((uintptr_t)1)

#define DEQUE_TRAP_HI ((struct wsd_task *)NULL)
#define DEQUE_TRAP_LO ((struct wsd_task *)UINTPTR_MAX)

struct deque {
    /* [const after init] */
    struct wsd_worker *owner;
    struct wsd_task *base, *limit; /* limit itself is a slot too: scratch for what overflows */
    void **contexts;               /* by slot. [written under lock before the slot is public; read after stealing it] */
    size_t mapped;
    bool eager; /* no membarrier here: nothing is ever private */
    /* [owner] */
    struct wsd_task *touched; /* no slot at or above it was ever used */
    struct wsd_task *level;   /* results wait beside the stack, below this slot: a pop of the one below asks */
    uint32_t inside_spawns;   /* children that run inside their spawn now */
    /* The lock between owner and revokers is biased: the owner says that he is in, and waits only where a revoker said
     * so before. membarrier makes it right, as with the traps. word is changed by the owner or a revoker under it, by
     * thieves without.
     * [atomic: owner's release, partner is the revoker's acquire] [atomic: the other way round] */
    _Atomic bool owner_in, revoking;
    pthread_mutex_t lock; /* revokers among themselves, and for the owner to wait for one */
    /* tail | split << 32. On a line of its own: thieves poll it.
     * [atomic: the owner's and revoker's release CAS publishes slots and contexts; partner is the thief's acquire CAS;
     * seq_cst where a trap must not be lost, see deque_bounds()] */
    _Alignas(CACHE_LINE) _Atomic uint64_t word;
};

/* slots 0: DEQUE_SLOTS. 0 or -ENOMEM. */
int deque_init(struct deque *d, struct wsd_worker *owner, uint32_t slots, bool eager);
void deque_deinit(struct deque *d);

/* Up to where the owner may push without asking. [owner, revoker] */
static inline struct wsd_task *deque_bound_owner(const struct deque *d, uint32_t tail)
{
    size_t n = (size_t)tail + DEQUE_WINDOW + (size_t)DEQUE_NEST * d->inside_spawns;

    return n < (size_t)(d->limit - d->base) ? d->base + n : d->limit;
}

/* After a push that found the bound: publishes if thieves have nothing, sets the bounds. False: there is enough on the
 * stack, and the task is not pushed. *ret_published: wake somebody. [owner] */
bool deque_pushed_owner(struct deque *d, struct wsd_task *t, bool *ret_published);

/* After a pop that found the bound. True: the task is the owner's again. False: it was stolen; top is above it again.
 * [owner] */
bool deque_popped_owner(struct deque *d, struct wsd_task *t, bool *ret_published);

/* The stolen task on top was joined: takes it off. [owner] */
void deque_joined_owner(struct deque *d, struct wsd_task *t);

/* The short form of a deque_pushed_owner() that says no: true, and t is taken off, where there is enough on the stack
 * and thieves have asked for nothing. As a pop, so the same rule holds: a revoker either saw the longer stack before
 * his membarrier, and published t, and then we see his trap; or he sees the shorter one. [owner] */
static inline bool deque_refuses_owner(struct deque *d, struct wsd_task *t)
{
    /* Relaxed: thieves move only the tail, and an old one errs on the side of running the child here. */
    uint32_t tail = (uint32_t)atomic_load_explicit(&d->word, memory_order_relaxed);

    if (t < deque_bound_owner(d, tail) || t >= d->limit)
        return false;
    __atomic_store_n(&d->owner->top, t, __ATOMIC_RELEASE);
    atomic_signal_fence(memory_order_seq_cst);
    if (__atomic_load_n(&d->owner->lo, __ATOMIC_RELAXED) != DEQUE_TRAP_LO)
        return true;
    __atomic_store_n(&d->owner->top, t + 1, __ATOMIC_RELEASE);
    return false;
}

/* A child runs inside its spawn, where it would have been pushed at t: begin gives what end wants. [owner] */
static inline uint32_t deque_inside_begin_owner(struct deque *d)
{
    uint32_t outer = d->inside_spawns;

    d->inside_spawns = outer + 1;
    return outer;
}

void deque_lower_owner(struct deque *d, const struct wsd_task *t);

static inline void deque_inside_end_owner(struct deque *d, const struct wsd_task *t, uint32_t outer)
{
    d->inside_spawns = outer;
    /* Where its children have raised the bound. Relaxed: our own, or a trap. */
    if (__builtin_expect(__atomic_load_n(&d->owner->hi, __ATOMIC_RELAXED) > t, 0))
        deque_lower_owner(d, t);
}

/* From now on the pop of the slot below `level` asks; base: none does. [owner] */
void deque_set_level_owner(struct deque *d, struct wsd_task *level);

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
