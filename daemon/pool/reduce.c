/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.c: a range to one value, combined in the order of its indices.
 * Owns the values of right halves, in the frame of the task that splits, or on the heap where they are large.
 * Keeps: combine is called for neighbours only, left before right; each value that was made is either combined away and
 * ended, or the result. Does not need the operation to commute. */

#include "pool/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/group.h"
#include "pool/worker.h"

/* A value of up to so many bytes lies in a frame. */
#define VALUE_ROOM 256

struct reduce {
    struct wsd_group group;
    struct partition partition;
    const struct wsd_reduction *how;
};

static bool value_make(struct reduce *r, void *value)
{
    int error = 0;

    if (r->how->identity)
        memcpy(value, r->how->identity, r->how->size);
    else
        error = r->how->init(value, r->how->arg);
    if (error)
        group_fail(&r->group, error);
    return error == 0;
}

static void value_end(struct reduce *r, void *value)
{
    if (r->how->fini)
        r->how->fini(value, r->how->arg);
}

/* Makes *value the sum of the range. False where there is no such value: something failed or was cancelled. */
WSD_TASK_6(bool, reduce_piece, struct reduce *, r, uint64_t, begin, uint64_t, end, uint64_t, grain, void *, value,
           struct piece_origin, origin)
{
    const struct wsd_reduction *how = r->how;
    _Alignas(CACHE_LINE) unsigned char room[VALUE_ROOM];
    void *right = room, *heap = NULL;

    if (wsd_group_cancelled(&r->group))
        return false;
    grain = partition_grain(self, &r->partition, grain, &origin);
    if (end - begin <= grain) {
        if (!value_make(r, value))
            return false;
        uint64_t began = partition_began(&r->partition);
        int error = how->body(self, &r->group, begin, end, value, how->arg);
        partition_ran(&r->partition, began, end - begin);
        if (!error)
            return true;
        group_fail(&r->group, error);
        value_end(r, value);
        return false;
    }
    if (how->size > sizeof(room)) {
        right = heap = lines_alloc(1, how->size);
        if (!heap) {
            group_fail(&r->group, -ENOMEM);
            return false;
        }
    }
    uint64_t middle = begin + (end - begin) / 2;
    WSD_SPAWN(reduce_piece, r, middle, end, grain, right, origin);
    bool left_made = WSD_CALL(reduce_piece, r, begin, middle, grain, value, origin);
    bool right_made = WSD_SYNC(reduce_piece);
    bool made = left_made && right_made;
    if (made && !wsd_group_cancelled(&r->group)) {
        int error = how->combine(self, &r->group, value, right, how->arg);
        if (error) {
            group_fail(&r->group, error);
            made = false;
        }
    } else {
        made = false;
    }
    if (right_made)
        value_end(r, right);
    if (left_made && !made)
        value_end(r, value);
    free(heap);
    return made;
}

int form_reduce(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                const struct wsd_reduction *reduction, void *ret_value)
{
    struct reduce r = {.how = reduction};
    bool made;

    if (reduction->size == 0 || (!reduction->identity && !reduction->init))
        return -EINVAL;
    wsd_group_begin(self, &r.group, group);
    if (begin < end) {
        partition_init(self, &r.partition, end - begin, grain);
        made =
            WSD_CALL(reduce_piece, &r, begin, end, r.partition.grain, ret_value, partition_origin(self, &r.partition));
    } else {
        made = value_make(&r, ret_value);
    }
    int error = wsd_group_end(self, &r.group);
    if (error && made)
        value_end(&r, ret_value);
    return error;
}
