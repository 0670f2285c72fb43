/* SPDX-License-Identifier: Apache-2.0
 *
 * deque.h: one worker's task stack, split into a public old part and a private young part.
 *
 *      base                           split_at              top              hi          limit
 *       | stolen        | public        | private            | free           | not touched |
 *        entries 0 ..    tail ..   split
 *
 * Slots differ in size, so what is public is listed: entry i says where the i-th public task is and what it belongs to.
 * The owner pushes and pops at top without asking anybody while it stays in the private part (inline, wsd/task.h).
 * Thieves take entry `tail`. tail and split are one 64-bit word, so that every change of either is decided by one
 * compare-and-swap. A thief that takes the last public task sets a trap (hi, lo), so that the owner's next push or pop
 * publishes more; where the owner does not come by, deque_revoke_any() publishes for it.
 *
 * The owner keeps DEQUE_WINDOW bytes of tasks that nobody has stolen. Beyond them a push says no, as on a full stack,
 * and the child runs inside its spawn: thieves have enough to take, and the tasks stay in the cache.
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
/* Bytes of tasks that are kept and not stolen, and so many more for each child that runs inside its spawn, so that its
 * own children need not. */
#define DEQUE_WINDOW ((size_t)512 * 1024)
#define DEQUE_NEST   ((size_t)16 * 1024)
/* What is touched above so many bytes is given back to the kernel when the worker parks. */
#define DEQUE_CHUNK ((size_t)1024 * 1024)
/* Bytes of slots; and twice as many for an entry, 32 bytes, for each that they hold: reserved and not touched. */
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
    uint32_t own;    /* of its owner when it was published: so its joins keep to their own */
    uint64_t origin; /* of its owner when it was published [also atomic, relaxed: a thief's hint] */
    /* of its thief while it runs [thief, before the slot's word says that he has it; then const] */
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
    /* What the tasks on the stack descend from, of all that this worker ever began: its root, or what it helps with in
     * a join and was not stolen back from its own thief. [atomic: relaxed; exact for who publishes] */
    _Atomic uint64_t origin;
    /* The lock between owner and revokers is biased: the owner says that he is in, and waits only where a revoker said
     * so before. membarrier makes it right, as with the traps. word is changed by the owner or a revoker under it, by
     * thieves without.
     * [atomic: owner's release, partner is the revoker's acquire] [atomic: the other way round] */
    _Atomic bool owner_in, revoking;
    pthread_mutex_t lock; /* revokers among themselves, and for the owner to wait for one */
    /* tail | split << 32. On a line of its own: thieves poll it.
     * [atomic: the owner's and revoker's release CAS publishes slots and entries; partner is the thief's acquire CAS;
     * seq_cst where a trap must not be lost, see deque_bounds()] */
    _Alignas(CACHE_LINE) _Atomic uint64_t word;
    /* Where the private part begins. [atomic: stored under lock, relaxed; a hint for others, exact where they have had
     * every CPU pass a barrier, see deque_settle()] */
    _Atomic(struct wsd_task *) split_at;
};

/* bytes of slots, 0: DEQUE_BYTES. 0 or -ENOMEM. */
int deque_init(struct deque *d, struct wsd_worker *owner, size_t bytes, bool eager);
void deque_deinit(struct deque *d);

/* Up to where the owner may push without asking. [owner, revoker] */
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

/* After a push that found the bound: publishes if thieves have nothing, sets the bounds. False: there is enough on the
 * stack, and the task is not pushed. *ret_published: wake somebody. [owner] */
bool deque_pushed_owner(struct deque *d, struct wsd_task *t, bool *ret_published);

/* After a pop that found the bound. True: the task is the owner's again. False: it was stolen; top is `next`, above it,
 * again. [owner] */
bool deque_popped_owner(struct deque *d, struct wsd_task *t, struct wsd_task *next, bool *ret_published);

/* The entry of the stolen task on top. [owner] */
struct deque_entry *deque_stolen_owner(struct deque *d);

/* The stolen task on top was joined: takes it off. [owner] */
void deque_joined_owner(struct deque *d, struct wsd_task *t);

/* The short form of a deque_pushed_owner() that says no: true, and t is taken off, where there is enough on the stack
 * and thieves have asked for nothing. As a pop, so the same rule holds: a revoker either saw the longer stack before
 * his membarrier, and published t, and then we see his trap; or he sees the shorter one. [owner] */
static inline bool deque_refuses_owner(struct deque *d, struct wsd_task *t)
{
    /* Acquire: partner is a revoker, who wrote the entry; an old word errs on the side of running the child here. */
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

/* A child that ran inside its spawn, where it would have been pushed at the owner's top, is done: the bound of the
 * outer one, where its children have raised it. [owner] */
void deque_lower_owner(struct deque *d);

/* From now on the pop of the slot below `level` asks; NULL: none does. [owner] */
void deque_set_level_owner(struct deque *d, struct wsd_task *level);

/* Makes all that is private public, for a worker that goes to wait; whether anything is public. [owner] */
bool deque_publish_owner(struct deque *d);

/* Gives memory back to the kernel; the deque is empty. [owner] */
void deque_trim_owner(struct deque *d);

/* Takes the oldest public task, or NULL. The entry is the thief's until the task is done. *ret_more: more are public.
 * [any but the owner] */
struct deque_entry *deque_steal_any(struct deque *d, bool *ret_more);

/* The same where it seems to be of this origin, for the caller to make sure. [any but the owner] */
struct deque_entry *deque_steal_origin_any(struct deque *d, uint64_t origin, bool *ret_more);

/* Publishes private tasks of an owner that does not come by. True: some are public now. [any but the owner] */
bool deque_revoke_any(struct deque *d);

/* Afterwards each owner has either seen every trap that was set before, or what he pushed before is visible. [any] */
void deque_settle(void);

/* Whether nothing is on it. Who has announced that he sleeps, or has stopped searching, need not deque_settle() then:
 * the next push publishes, and sees him. [any but the owner] */
bool deque_is_empty_any(const struct deque *d);

/* Whether something is public; whether something is private (exact after deque_settle(), else a hint). [any] */
bool deque_has_public_any(const struct deque *d);
bool deque_has_private_any(const struct deque *d);
/* Whether deque_steal_origin_any() would have something: the oldest one that is public is part of this origin. */
bool deque_has_origin_any(const struct deque *d, uint64_t origin);

/* Registers the process for membarrier: without it deques must be eager. */
bool deque_revoke_available(void);
