/* SPDX-License-Identifier: Apache-2.0
 *
 * park.h: which workers sleep, which ones search, and which one to wake.
 *
 * Two kinds of worker sleep. An idle worker may take anything. All idle workers sleep on one eventcount, which may lie
 * in memory shared with another process. A worker in a join may take tasks but no roots. Each of these sleeps on an
 * eventcount of its own, and is in a list while it would take any task.
 *
 * The word `searchers` counts the idle workers that search, and has a bit that says "one is being woken". A thread that
 * makes work visible wakes no worker while `searchers` (without PARK_WAKE_PENDING) is not 0: the searching or woken
 * worker will find the work. A worker that is the last to stop searching, and sees that more is left, wakes the next.
 * Why no work is lost:
 *   - A waker makes work visible, then does an RMW on searchers. A worker stops searching by an RMW on searchers, then
 *     looks everywhere. If the waker saw the searcher, the waker's RMW came first, and the look sees the work.
 *   - If the waker saw no searcher, it notifies the eventcount. The same argument holds there (base/eventcount.h).
 *   - A worker that begins to search clears the bit. So does a waker that found no sleeper. That waker then looks once
 *     more. Another worker may have gone to sleep meanwhile over work, because that work's waker relied on the bit.
 *   - A waker for a task that relies on the bit sets a second bit. The waker it relies on may have a root, for which it
 *     wakes no join. If that waker finds no idle sleeper, it wakes a join for the task.
 *   - A join that is woken for a task may find another task, or find its child done. It then looks whether something is
 *     left.
 *
 *                 | wake_* | search_* | joiner_*
 *   wake_*        |  yes   |   yes    |  yes        wake_* [any thread], the others [worker]; any number at once
 *   search_*      |  yes   |   yes    |  yes
 *   joiner_*      |  yes   |   yes    |  yes
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/eventcount.h"
#include "base/list.h"

struct joiner {
    struct list link;        /* [park.lock] */
    struct eventcount event; /* also notified by the thread that finishes the awaited task */
};

#define PARK_SEARCHERS 0x1fffffffu /* in searchers: the number of workers that search */
/* Bit of searchers: the process that publishes roots has woken a worker, or the monitor, and none has begun to search
 * since. */
#define PARK_WAKE_PENDING (1u << 29)

struct park {
    _Atomic uint32_t *searchers; /* [atomic: RMWs only, acq_rel, partners are each other] */
    _Atomic uint32_t own_searchers;
    struct eventcount *event; /* [const] */
    bool shared;              /* [const] */
    pthread_mutex_t lock;
    struct list joiners; /* [lock] */
    /* [atomic: written under lock. Added to with seq_cst; the partners are the RMW of zero and the load that look for a
     * join to wake. Subtracted from relaxed: a count that is still too high only costs a look under the lock] */
    _Atomic uint32_t n_joiners;
};

/* searchers: the word to use, which holds 0; NULL: the park uses one of its own. A process that publishes roots may
 * share the word. It need not notify the event while the word is not 0 (RMW of zero, acq_rel). If the word is 0, it
 * sets PARK_WAKE_PENDING, then notifies. No thread of this process relies on that bit, so misuse of it harms only the
 * roots of that process. */
void park_init(struct park *p, struct eventcount *event, bool shared, _Atomic uint32_t *searchers);
void park_deinit(struct park *p);

/* Call after a root, or a task, has become visible. Wakes at most one worker. False: no worker was woken, and none
 * searches. */
bool park_wake_root(struct park *p);
bool park_wake_task(struct park *p);

/* Whether a worker or the monitor sleeps or is about to. A worker that is not counted yet will still look for work
 * itself. [any] */
bool park_has_sleepers(const struct park *p);

/* Whether an idle worker sleeps or searches. Only a guess. [any] */
bool park_has_idle(const struct park *p);

/* The process that publishes roots rings again for the next one. The monitor calls it after it has announced its sleep,
 * and before its last look. That process may have set the bit for a worker that never searched: it found the root between
 * two tasks. */
void park_forget_pending(struct park *p);

/* An idle worker begins, or stops, to search. park_search_end() returns true for the last one. After it, the worker
 * looks everywhere before it sleeps. */
void park_search_begin(struct park *p);
bool park_search_end(struct park *p);

/* A join begins, or stops, to accept any task. Call eventcount_prepare() before the add, then look for work, then
 * eventcount_wait(), then the remove. If the join was woken for a task, park_joiner_remove() returns false. The caller
 * must then see to it that the next worker is woken if more is left. */
void park_joiner_add(struct park *p, struct joiner *j);
bool park_joiner_remove(struct park *p, struct joiner *j);
