/* SPDX-License-Identifier: Apache-2.0
 *
 * park.h: who sleeps, who searches, and whom to wake.
 *
 * Two kinds sleep. Idle workers, who may take anything, sleep on one eventcount, perhaps in memory shared with another
 * process. Workers in a join, who may take tasks but no roots, sleep each on an eventcount of his own, and stand in a
 * list while they would take any task.
 *
 * One word, `seek`, counts the searching idle workers, and has a bit for "one is being woken". Whoever makes work
 * visible wakes nobody while it is not 0 (but for PARK_RUNG): the searcher or the woken one will find it, and, if he is
 * the last to stop searching and more is left, wakes the next. Why nothing is lost:
 *   - A waker makes work visible, then does an RMW on seek. A worker stops searching by an RMW on seek, then looks
 *     everywhere. If the waker saw the searcher, its RMW came first, and the look sees the work.
 *   - If it saw none, it notifies the eventcount, where the same argument holds (base/eventcount.h).
 *   - The bit is taken back by whoever comes to search, or by the waker that found nobody asleep, who then looks again
 *     whether somebody went to sleep in the meantime because others relied on the bit. Who wakes for a task and relies
 *     on it says so with a second bit: where that waker has a root, and so would wake no join, he wakes one for him.
 *   - A join that is woken for a task may find another, or its child done: it looks then whether something is left.
 *
 *                | wake_* | search_* | joiner_*
 *  wake_*        |  yes   |   yes    |  yes        wake_* [any thread], the others [worker]; any number at once
 *  search_*      |  yes   |   yes    |  yes
 *  joiner_*      |  yes   |   yes    |  yes
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
    struct eventcount event; /* also notified by whoever finishes the awaited task */
};

#define PARK_SEARCHERS 0x1fffffffu /* of seek: how many search */
/* of seek: who publishes roots from another process has woken somebody, who has not come to search */
#define PARK_RUNG (1u << 29)

struct park {
    _Atomic uint32_t *seek; /* [atomic: RMWs only, acq_rel, partners are each other] */
    _Atomic uint32_t own_seek;
    struct eventcount *event; /* [const] */
    bool shared;              /* [const] */
    pthread_mutex_t lock;
    struct list joiners;        /* [lock] */
    _Atomic uint32_t n_joiners; /* [atomic: stored under lock; seq_cst RMW, partner is wake_task's] */
};

/* seek: where the word is, 0; NULL: the park has one. One who publishes roots from another process may use it: he need
 * not notify the event while it is not 0 (RMW of zero, acq_rel). Where it is, he sets PARK_RUNG before he does. Nobody
 * here relies on that bit, so what he makes of it harms his own roots only. */
void park_init(struct park *p, struct eventcount *event, bool shared, _Atomic uint32_t *seek);
void park_deinit(struct park *p);

/* A root is visible; a task is visible. Wakes at most one. False: nobody was woken, and nobody searches. */
bool park_wake_root(struct park *p);
bool park_wake_task(struct park *p);

/* Whether anybody sleeps or is about to; who is not counted yet will look for himself. [any] */
bool park_has_sleepers(const struct park *p);

/* An idle worker searches; he stops. True: he was the last. After stopping he looks everywhere before he sleeps. */
void park_search_begin(struct park *p);
bool park_search_end(struct park *p);

/* A join would take any task; it no longer would. First eventcount_prepare, between them look, eventcount_wait. False:
 * it was woken for a task, and has to see that the next one is woken where more is left. */
void park_joiner_add(struct park *p, struct joiner *j);
bool park_joiner_remove(struct park *p, struct joiner *j);
