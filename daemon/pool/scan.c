/* SPDX-License-Identifier: Apache-2.0
 *
 * scan.c: running sums of an array, in blocks.
 * Owns, during a call, three elements a block. Each inner node of the tree of blocks, identified by its middle, has the
 * sums of its left and its right half. Each block has room for one more.
 * Keeps: one worker goes from left to right once. Work to the right of it is offered to thieves. A thief sums up its
 * part ahead, and that part is then scanned in parallel as soon as the sum before it is known. In place, an element is
 * summed up before it is written: the sum is joined before the scan begins.
 * Does not need the operation to commute. */

#include "pool/scan.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/group.h"

#define BLOCKS_A_WORKER 32
#define LEAST_BLOCK     64

struct scan {
    struct wsd_group group;
    const struct wsd_scan_args *how;
    uint64_t blocks, block; /* how many, and elements of each but the last */
    size_t line;            /* bytes between sums */
    unsigned char *left, *right, *spare;
    /* The sum so far holds nothing yet. [the worker that scans the first block] */
    bool empty;
};

static void *at(const struct scan *s, unsigned char *sums, uint64_t i)
{
    return sums + i * s->line;
}

static bool combine(struct scan *s, void *left, const void *right)
{
    int error = s->how->combine(left, right, s->how->arg);

    if (error)
        group_fail(&s->group, error);
    return error == 0;
}

static bool sum_block(struct scan *s, uint64_t b, void *sum)
{
    const unsigned char *in = (const unsigned char *)s->how->in + b * s->block * s->how->size;
    uint64_t n = MIN(s->block, s->how->count - b * s->block);

    memcpy(sum, in, s->how->size);
    for (uint64_t i = 1; i < n; i++)
        if (!combine(s, sum, in + i * s->how->size))
            return false;
    return true;
}

/* Scans block b; sum is that of all before it, then of all up to its end. */
static bool scan_block(struct scan *s, uint64_t b, void *sum)
{
    size_t size = s->how->size, from = b * s->block * size;
    const unsigned char *in = (const unsigned char *)s->how->in + from;
    unsigned char *out = (unsigned char *)s->how->out + from, *spare = at(s, s->spare, b);
    uint64_t n = MIN(s->block, s->how->count - b * s->block), i = 0;

    if (s->how->kind == WSD_SCAN_EXCLUSIVE) {
        for (; i < n; i++, in += size, out += size) {
            element_copy(spare, sum, size);
            if (!combine(s, sum, in))
                return false;
            element_copy(out, spare, size);
        }
        return true;
    }
    if (b == 0 && s->empty) {
        s->empty = false;
        memcpy(sum, in, size);
        if (out != in)
            memcpy(out, in, size);
        i = 1, in += size, out += size;
    }
    for (; i < n; i++, in += size, out += size) {
        if (!combine(s, sum, in))
            return false;
        element_copy(out, sum, size);
    }
    return true;
}

/* Sums up the blocks of lo <= b < hi, and both halves of each node below. */
WSD_TASK_4(bool, scan_sum, struct scan *, s, uint64_t, lo, uint64_t, hi, void *, sum)
{
    if (wsd_group_cancelled(&s->group))
        return false;
    if (hi - lo == 1)
        return sum_block(s, lo, sum);
    uint64_t middle = lo + (hi - lo) / 2;
    void *left = at(s, s->left, middle), *right = at(s, s->right, middle);
    WSD_SPAWN(scan_sum, s, middle, hi, right);
    bool left_made = WSD_CALL(scan_sum, s, lo, middle, left);
    if (!WSD_SYNC(scan_sum) || !left_made)
        return false;
    memcpy(sum, left, s->how->size);
    return combine(s, sum, right);
}

/* The same for what lies ahead, where there is still time for it. */
WSD_TASK_5(bool, scan_ahead, struct scan *, s, uint64_t, lo, uint64_t, hi, void *, sum, const _Atomic bool *, late)
{
    /* Relaxed: a hint; the owner sets it before it joins this. */
    return !atomic_load_explicit(late, memory_order_relaxed) && WSD_CALL(scan_sum, s, lo, hi, sum);
}

/* Scans blocks after their nodes have been summed up. sum: as for scan_block(). */
WSD_VOID_TASK_4(scan_summed, struct scan *, s, uint64_t, lo, uint64_t, hi, void *, sum)
{
    if (wsd_group_cancelled(&s->group))
        return;
    if (hi - lo == 1) {
        scan_block(s, lo, sum);
        return;
    }
    uint64_t middle = lo + (hi - lo) / 2;
    void *next = at(s, s->right, middle); /* the sum of the right half has done its duty */
    memcpy(next, sum, s->how->size);
    if (!combine(s, next, at(s, s->left, middle)))
        return;
    WSD_SPAWN(scan_summed, s, middle, hi, next);
    WSD_CALL(scan_summed, s, lo, middle, sum);
    WSD_SYNC(scan_summed);
    memcpy(sum, next, s->how->size);
}

/* Scans blocks, left to right. sum: as for scan_block(). */
WSD_VOID_TASK_4(scan_blocks, struct scan *, s, uint64_t, lo, uint64_t, hi, void *, sum)
{
    _Atomic bool late = false;

    if (wsd_group_cancelled(&s->group))
        return;
    if (hi - lo == 1) {
        scan_block(s, lo, sum);
        return;
    }
    uint64_t middle = lo + (hi - lo) / 2;
    WSD_SPAWN(scan_ahead, s, middle, hi, at(s, s->right, middle), &late);
    WSD_CALL(scan_blocks, s, lo, middle, sum);
    atomic_store_explicit(&late, true, memory_order_relaxed);
    if (WSD_SYNC(scan_ahead))
        WSD_CALL(scan_summed, s, middle, hi, sum);
    else
        WSD_CALL(scan_blocks, s, middle, hi, sum);
}

static int scan_run(struct wsd_worker *self, struct wsd_group *group, struct scan *s)
{
    const struct wsd_scan_args *how = s->how;
    unsigned char *sum = at(s, s->spare, s->blocks);

    wsd_group_begin(self, &s->group, group);
    if (how->initial)
        memcpy(sum, how->initial, how->size);
    if (how->count)
        WSD_CALL(scan_blocks, s, 0, s->blocks, sum);
    int error = wsd_group_end(self, &s->group);
    if (!error && how->ret_total && (how->count || how->initial))
        memcpy(how->ret_total, sum, how->size);
    return error;
}

int form_scan(struct wsd_worker *self, struct wsd_group *group, const struct wsd_scan_args *how)
{
    struct scan s = {.how = how, .block = how->grain, .empty = !how->initial};

    if (how->size == 0 || how->kind > WSD_SCAN_EXCLUSIVE || (how->kind == WSD_SCAN_EXCLUSIVE && !how->initial))
        return -EINVAL;
    if (s.block == 0) {
        uint64_t blocks = (uint64_t)BLOCKS_A_WORKER * forms_workers(self);
        s.block = MAX(how->count / blocks + 1, LEAST_BLOCK);
    }
    s.blocks = how->count / s.block + (how->count % s.block != 0);
    s.line = lines_size(how->size);
    if (s.line == 0 || s.blocks > (UINT64_MAX - 1) / 3)
        return -ENOMEM;
    _cleanup_(freep) unsigned char *sums = lines_alloc(3 * s.blocks + 1, s.line);
    if (!sums)
        return -ENOMEM;
    s.left = sums;
    s.right = at(&s, sums, s.blocks);
    s.spare = at(&s, sums, 2 * s.blocks);
    return scan_run(self, group, &s);
}
