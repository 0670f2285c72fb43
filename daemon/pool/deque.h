/* SPDX-License-Identifier: Apache-2.0
 *
 * deque.h: one worker's task stack, split into a public old part and a private young part.
 *
 *       base                           split_at              top              hi          limit
 *        | stolen        | public        | private            | free           | not touched |
 *         entries 0 ..    tail ..   split
 *
 * Slots differ in size, so the public ones are listed: entry i says where the i-th public task is and what it belongs
 * to. The owner pushes and pops at top without synchronization while it stays in the private part (inline, wsd/task.h).
 * Thieves take entry `tail`. tail and split are one 64-bit word, so one compare-and-swap decides every change of
 * either. A thief that takes the last public task sets a trap (hi, lo), which makes the owner's next push or pop
 * publish more. If the owner does neither for long, deque_revoke_any() publishes for it.
 *
 * The owner keeps at most DEQUE_WINDOW bytes of tasks that were not stolen. Beyond them a push is refused, as on a full
 * stack, and the child runs inside its spawn. Thieves have enough to take then, and the tasks stay in the cache.
 *
 *              | owner's inline push/pop | _owner | steal_any | revoke_any | hint_any
 *   inline     |     no (one thread)     |   no   |    yes    |    yes     |   yes
 *   _owner     |           no            |   no   |    yes    |    lock    |   yes
 *   steal_any  |          yes            |  yes   |    yes    |    yes     |   yes
 *   revoke_any |          yes            |  lock  |    yes    |    lock    |   yes
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wsd/task.h"

#define CACHE_LINE 64

/* Most tasks that one call publishes: bounds the time under the lock and the cache lines touched. */
#define DEQUE_PUBLISH_MAX 256u
/* DEQUE_WINDOW: bytes of tasks that the owner keeps and thieves have not taken. Each child that runs inside its spawn
 * adds DEQUE_NEST, so that its own children can be pushed. */
#define DEQUE_WINDOW ((size_t)512 * 1024)
#define DEQUE_NEST   ((size_t)16 * 1024)
/* When the worker parks, memory that was touched above this many bytes goes back to the kernel. */
#define DEQUE_CHUNK ((size_t)1024 * 1024)
/* Bytes of slots. Their entries, of 32 bytes each, take twice as many. Both are reserved, not touched. */
#define DEQUE_BYTES ((size_t)96 * 1024 * 1024)
/* The smallest slot and the largest. */
#define DEQUE_SLOT_MIN (sizeof(struct wsd_task) + 8)
#define DEQUE_SLOT_MAX (sizeof(struct wsd_task) + WSD_TASK_DATA)

/* The word of a slot that was stolen: TASK_STOLEN | the thief, a struct worker; then TASK_DONE. Before, its type. */
#define TASK_STOLEN ((uintptr_t)1)
#define TASK_DONE   ((uintptr_t)2)

#define DEQUE_TRAP_HI ((struct wsd_task *)NULL)
#define DEQUE_TRAP_LO ((struct wsd_task *)UINTPTR_MAX)

/* A public task. [written under lock before it is public; read after stealing it] */
struct deque_entry {
    struct wsd_task *task;
    void *context;
    uint32_t own;    /* of its owner when it was published: keeps its joins to their own tasks */
    uint64_t origin; /* of its owner when it was published [also atomic, relaxed: a thief's hint] */
    /* of its thief while it runs [thief, before the slot's word names the thief; then const] */
    uint64_t run_origin;
};

struct deque {
    /* [const after init] */
    struct wsd_worker *owner;
    struct wsd_task *base, *limit; /* a slot may begin below limit, and end behind it */
    struct deque_entry *entries;   /* one for each slot that there can be */
    size_t mapped;
    bool eager; /* no membarrier here: nothing is ever private */
    /* [owner] */
    struct wsd_task *touched; /* no slot at or above it was ever used */
    /* What the tasks on the stack descend from, as a number among all that this worker ever began. It is the worker's
     * root, or what it helps with in a join and did not steal back from its own thief. [atomic: relaxed; exact for the
     * publisher] */
    _Atomic uint64_t origin;
    /* The lock between owner and revokers is biased: the owner sets owner_in, and waits only if a revoker has set
     * revoking before. membarrier makes this right, as with the traps. The owner or a revoker changes `word` under this
     * lock, thieves change it without. [atomic: owner_in: owner's release, partner is the revoker's acquire; revoking:
     * the other way round] */
    _Atomic bool owner_in, revoking;
    pthread_mutex_t lock; /* between revokers; the owner takes it to wait for one */
    /* tail | split << 32. On a line of its own: thieves poll it.
     * [atomic: the owner's and revoker's release CAS publishes slots and entries; partner is the thief's acquire CAS.
     * Accesses are seq_cst where a trap must not be lost, see deque_bounds()] */
    _Alignas(CACHE_LINE) _Atomic uint64_t word;
    /* Where the private part begins. [atomic: stored under lock, relaxed; a hint for others, but exact for a thread
     * that has made every CPU pass a barrier, see deque_settle()] */
    _Atomic(struct wsd_task *) split_at;
};

/* `bytes` of slots; 0: DEQUE_BYTES. Returns 0 or -ENOMEM. */
int deque_init(struct deque *d, struct wsd_worker *owner, size_t bytes, bool eager);
void deque_deinit(struct deque *d);

/* The address below which the owner may push without a check. [owner, revoker] */
static inline struct wsd_task *deque_bound_owner(const struct deque *d, uint64_t word)
{
    uint32_t tail = (uint32_t)word;
    const struct wsd_task *oldest = tail < (uint32_t)(word >> 32)
                                        ? d->entries[tail].task
                                        : atomic_load_explicit(&d->split_at, memory_order_relaxed);
    size_t room = DEQUE_WINDOW + DEQUE_NEST * d->owner->inside;

    return room < (size_t)((const char *)d->limit - (const char *)oldest)
               ? (struct wsd_task *)(void *)((char *)(uintptr_t)oldest + room)
               : d->limit;
}

/* Call after a push that reached the bound. Publishes if thieves have nothing to take, and sets the bounds. False:
 * there is enough on the stack, and the task is not pushed. *ret_published: wake a worker. [owner] */
bool deque_pushed_owner(struct deque *d, struct wsd_task *t, bool *ret_published);

/* Call after a pop that reached the bound. True: the task is the owner's again. False: it was stolen, and top is back
 * at `next`, above the task. [owner] */
bool deque_popped_owner(struct deque *d, struct wsd_task *t, struct wsd_task *next, bool *ret_published);

/* The entry of the stolen task on top. [owner] */
struct deque_entry *deque_stolen_owner(struct deque *d);

/* The stolen task on top was joined: takes it off. [owner] */
void deque_joined_owner(struct deque *d, struct wsd_task *t);

/* The short form of a deque_pushed_owner() that refuses. Returns true, with t taken off, if there is enough on the
 * stack and thieves have asked for nothing. Taking t off is a pop, so the rule of pops holds. If a revoker saw the
 * longer stack before its membarrier, it published t, and the owner sees its trap. Otherwise the revoker sees the
 * shorter stack. [owner] */
static inline bool deque_refuses_owner(struct deque *d, struct wsd_task *t)
{
    /* Acquire: partner is the revoker that wrote the entry. An old word at worst runs the child here. */
    uint64_t word = atomic_load_explicit(&d->word, memory_order_acquire);

    if (t < deque_bound_owner(d, word) || t >= d->limit)
        return false;
    struct wsd_task *next = d->owner->top;
    wsd_task_top_(d->owner, t);
    if (!wsd_task_shared_(d->owner, DEQUE_TRAP_LO - 1))
        return true;
    wsd_task_top_(d->owner, next);
    return false;
}

/* A child that ran inside its spawn, at the owner's top, has ended. Restores the bound of the outer one, if children
 * have raised it. [owner] */
void deque_lower_owner(struct deque *d);

/* From now on, popping the slot below `level` takes the slow path. NULL: no slot does. [owner] */
void deque_set_level_owner(struct deque *d, struct wsd_task *level);

/* Publishes all private tasks, for a worker that is about to wait. Returns whether any task is public. [owner] */
bool deque_publish_owner(struct deque *d);

/* Gives memory back to the kernel. Requires an empty deque. [owner] */
void deque_trim_owner(struct deque *d);

/* Takes the oldest public task, or NULL. The entry is the thief's until the task is done. *ret_more: more are public.
 * [any but the owner] */
struct deque_entry *deque_steal_any(struct deque *d, bool *ret_more);

/* The same, but only if the oldest task seems to be of this origin. The caller must check the origin. [any but the
 * owner] */
struct deque_entry *deque_steal_origin_any(struct deque *d, uint64_t origin, bool *ret_more);

/* Publishes private tasks of an owner that does not do so itself. True: some are public now. [any but the owner] */
bool deque_revoke_any(struct deque *d);

/* After this call, each owner has seen every trap set before it, or what that owner pushed before is visible. [any] */
void deque_settle(void);

/* Whether the deque is empty. A caller that has announced its sleep, or has stopped searching, needs no deque_settle()
 * before: the next push publishes, and sees the caller. [any but the owner] */
bool deque_is_empty_any(const struct deque *d);

/* Whether something is public; whether something is private (exact after deque_settle(), else a hint). [any] */
bool deque_has_public_any(const struct deque *d);
bool deque_has_private_any(const struct deque *d);
/* Whether deque_steal_origin_any() would have something: the oldest one that is public is part of this origin. */
bool deque_has_origin_any(const struct deque *d, uint64_t origin);

/* Registers the process for membarrier: without it deques must be eager. */
bool deque_revoke_available(void);
