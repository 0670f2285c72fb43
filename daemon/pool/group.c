/* SPDX-License-Identifier: Apache-2.0
 *
 * group.c: task groups, and what all forms share: first error, cancelling, how a range is cut into pieces.
 * Owns nothing: a group lies with its caller. Each call runs on the worker of its `self`.
 * Keeps: a group ends after its last child; its first error stays; once it is cancelled no child starts.
 * Does not tell a parent of a child's error: the owner of the child group may do that. */

#include "pool/group.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/ticks.h"
#include "pool/worker.h"

#define LINE ((size_t)CACHE_LINE)

/* PIECES_A_WORKER: pieces for each worker if none is stolen. LEAST_PART: how many times smaller pieces may become if
 * all are stolen. LEAST_TICKS: the least ticks of a piece, some 5 or 15 us; less is not worth the way to another
 * CPU. */
#define PIECES_A_WORKER 4
#define LEAST_PART      64
#define LEAST_TICKS     15000u

void group_fail(struct wsd_group *group, int error)
{
    int32_t none = 0;

    /* Relaxed: what orders it is the release that follows. A child that stops because it sees `cancelled` comes after
     * this in the error's modification order. */
    __atomic_compare_exchange_n(&group->error, &none, error, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    wsd_group_cancel(group);
}

void group_cancel(struct wsd_group *group)
{
    wsd_group_cancel(group);
}

bool group_cancelled(const struct wsd_group *group)
{
    return wsd_group_cancelled(group);
}

void group_begin(struct wsd_worker *self, struct wsd_group *group, struct wsd_group *parent)
{
    pool_check_fork();
    *group = (struct wsd_group){.owner = self, .parent = parent, .ops = self->ops};
}

WSD_VOID_TASK_3(group_child, struct wsd_group *, group, wsd_work_fn *, fn, void *, arg)
{
    if (wsd_group_cancelled(group))
        return;
    int error = fn(self, arg);
    if (error)
        group_fail(group, error);
}

void group_spawn(struct wsd_worker *self, struct wsd_group *group, wsd_work_fn *fn, void *arg)
{
    if (group->owner != self)
        pool_broken("a task spawns into a group that another one began");
    group->spawned++;
    WSD_SPAWN(group_child, group, fn, arg);
}

int group_end(struct wsd_worker *self, struct wsd_group *group)
{
    if (group->owner != self)
        pool_broken("a task ends a group that another one began");
    for (; group->spawned; group->spawned--)
        WSD_SYNC(group_child);
    /* Relaxed: all threads that may write it have been joined. */
    int error = __atomic_load_n(&group->error, __ATOMIC_RELAXED);
    if (error)
        return error;
    return wsd_group_cancelled(group) ? -ECANCELED : 0;
}

uint32_t forms_workers(struct wsd_worker *self)
{
    return pool_shown_workers(((struct worker *)(void *)self)->pool);
}

void partition_init(struct wsd_worker *self, struct partition *p, uint64_t count, uint64_t grain)
{
    uint64_t pieces = (uint64_t)PIECES_A_WORKER * forms_workers(self);

    p->grain = p->least = grain;
    if (grain == 0) {
        p->grain = count / pieces + (count % pieces != 0);
        p->grain = MAX(p->grain, 1);
        p->least = MAX(p->grain / LEAST_PART, 1);
    }
    atomic_init(&p->steals, 0);
    atomic_init(&p->cost, 0);
}

struct piece_origin partition_origin(struct wsd_worker *self, struct partition *p)
{
    return (struct piece_origin){self->index, atomic_load_explicit(&p->steals, memory_order_relaxed)};
}

uint64_t partition_grain(struct wsd_worker *self, struct partition *p, uint64_t grain, struct piece_origin *origin)
{
    if (grain <= p->least)
        return grain;
    uint32_t steals = origin->worker == self->index
                          ? atomic_load_explicit(&p->steals, memory_order_relaxed)
                          : atomic_fetch_add_explicit(&p->steals, 1, memory_order_relaxed) + 1;
    uint64_t cost = atomic_load_explicit(&p->cost, memory_order_relaxed);
    origin->worker = self->index;
    if (steals == origin->steals || cost == 0)
        return grain; /* what is spawned from here still notices the steal */
    origin->steals = steals;
    return MAX(MAX(grain / 4, p->least), MIN((LEAST_TICKS << 8) / cost, grain));
}

uint64_t partition_began(const struct partition *p)
{
    return p->least < p->grain && atomic_load_explicit(&p->steals, memory_order_relaxed) ? ticks_now() : 0;
}

void partition_ran(struct partition *p, uint64_t began, uint64_t indices)
{
    if (began)
        atomic_store_explicit(&p->cost, ((ticks_now() - began) << 8) / indices + 1, memory_order_relaxed);
}

size_t lines_size(size_t size)
{
    return size > SIZE_MAX - LINE ? 0 : (size + LINE - 1) / LINE * LINE;
}

void *lines_alloc(uint64_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    bytes = lines_size(bytes);
    return bytes ? aligned_alloc(LINE, bytes) : NULL;
}
