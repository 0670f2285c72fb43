/* SPDX-License-Identifier: Apache-2.0
 *
 * each.c: parallel for with errors, and the first index at which something holds.
 * Owns nothing beyond a call.
 * Keeps: each index is visited at most once, and exactly once if nothing fails. No piece begins once the form is
 * cancelled, or at or above the best index that find has.
 * Does not decide when to split: partition_grain() does. */

#include "pool/each.h"

#include <stdatomic.h>

#include "base/cleanup.h"
#include "pool/group.h"

struct each {
    struct wsd_group group;
    struct partition partition;
    wsd_each_fn *body;
    void *arg;
};

WSD_VOID_TASK_5(each_piece, struct each *, e, uint64_t, begin, uint64_t, end, uint64_t, grain, struct piece_origin,
                origin)
{
    uint32_t spawned = 0;

    if (wsd_group_cancelled(&e->group))
        return;
    grain = partition_grain(self, &e->partition, grain, &origin);
    /* The far halves first, so that thieves get the largest. At most 64. */
    for (; end - begin > grain; spawned++) {
        uint64_t middle = begin + (end - begin) / 2;
        WSD_SPAWN(each_piece, e, middle, end, grain, origin);
        end = middle;
    }
    uint64_t began = partition_began(&e->partition);
    int error = e->body(self, &e->group, begin, end, e->arg);
    partition_ran(&e->partition, began, end - begin);
    if (error)
        group_fail(&e->group, error);
    while (spawned--)
        WSD_SYNC(each_piece);
}

int form_for_each(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                  wsd_each_fn *body, void *arg)
{
    struct each e = {.body = body, .arg = arg};

    wsd_group_begin(self, &e.group, group);
    if (begin < end) {
        partition_init(self, &e.partition, end - begin, grain);
        WSD_CALL(each_piece, &e, begin, end, e.partition.grain, partition_origin(self, &e.partition));
    }
    return wsd_group_end(self, &e.group);
}

struct find {
    wsd_find_fn *find;
    void *arg;
    bool whole; /* pieces are the user's: not to be looked through in parts */
    /* The lowest hit so far, or the end. [atomic: relaxed; only to do less, until all are joined] */
    _Atomic uint64_t best;
};

static void lower(_Atomic uint64_t *best, uint64_t index)
{
    uint64_t old = atomic_load_explicit(best, memory_order_relaxed);

    while (index < old &&
           !atomic_compare_exchange_weak_explicit(best, &old, index, memory_order_relaxed, memory_order_relaxed))
        ;
}

static int find_piece(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    struct find *f = arg;
    uint64_t step = f->whole ? end - begin : MAX((end - begin) / 16, 1);

    while (begin < end && begin < atomic_load_explicit(&f->best, memory_order_relaxed)) {
        uint64_t until = end - begin > step ? begin + step : end, index = until;
        int error = wsd_group_cancelled(group) ? 0 : f->find(self, group, begin, until, f->arg, &index);
        if (error)
            return error;
        if (index >= begin && index < until) {
            lower(&f->best, index);
            break;
        }
        begin = until;
    }
    return 0;
}

int form_find_first(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                    wsd_find_fn *find, void *arg, uint64_t *ret_index)
{
    struct find f = {.find = find, .arg = arg, .whole = grain != 0, .best = end};
    int error = wsd_for_each(self, group, begin, end, grain, find_piece, &f);

    if (!error)
        *ret_index = atomic_load_explicit(&f.best, memory_order_relaxed);
    return error;
}
