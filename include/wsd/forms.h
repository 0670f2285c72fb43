/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/forms.h: structured forms over the tasks of wsd/task.h: groups, loops, reduce, scan, sort, find, pipelines.
 *
 *     static int shrink(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
 *     {
 *         struct picture *pictures = (struct picture *)arg;
 *
 *         for (uint64_t i = begin; i < end && !wsd_group_cancelled(group); i++)
 *             if (!picture_shrink(&pictures[i]))
 *                 return EIO;
 *         return 0;
 *     }
 *     ...
 *     int error = wsd_for_each(self, NULL, 0, count, 0, shrink, pictures);
 *
 * What all of them share:
 *
 * Each form is a call that returns when everything that it began has ended. So its arguments may lie on the caller's
 * stack. It may be called from any task, also from inside another form, on any number of workers. While it waits, the
 * worker runs other tasks: hold no lock across it.
 *
 * Errors. A function of yours returns 0, or its error: any other int, such as an errno. The first error in time wins:
 * the form returns it, and it cancels the form. Pieces that have not begun by then are skipped; running pieces end as
 * usual. The form's own errors are -EINVAL, -ENOMEM and -ECANCELED.
 *
 * Cancelling. `group` is NULL or a group. If that group, or one above it, is cancelled, the form stops too. It then
 * returns -ECANCELED, even if nothing was left to stop. An error in a form does not cancel that group: the caller
 * that gets it decides, for example by returning it. Functions of yours get the form's own group. Ask it in long
 * pieces, and give it to forms within. The job itself is no group: if wsd_job_cancelled() is true, return an error.
 *
 * What your functions write is visible to the caller when the form returns. They run on several threads at once.
 *
 * Ranges are begin <= i < end; if end <= begin they are empty. The grain is the largest piece that is not split: the
 * tree of pieces then depends on the range alone. Grain 0 lets the pool choose: about four pieces a worker, and smaller
 * ones if steals show that others have nothing to do (Robison, Voss, Kukanov: Optimization via Reflection on Work
 * Stealing in TBB, 2008).
 *
 * Structures here are yours, on the stack or elsewhere. Set their reserved words to 0, as initialisers do.
 *
 * Works in C11 and C++17; a lambda without captures is a function. No exception may leave a function of yours.
 */
#ifndef WSD_FORMS_H
#define WSD_FORMS_H

#include <wsd/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- groups --- */

/* A set of children that end together, and the flag that stops them. Begin it before use, and do not move or copy it
 * until its end. The fields are not for use by hand. Since 1. */
struct wsd_group {
    /* Written at each spawn; on another cache line than what thieves read. */
    uint64_t spawned;         /* children not joined yet [owner] */
    struct wsd_worker *owner; /* [owner] */
    uintptr_t reserved_owner[6];
    struct wsd_group *parent;       /* or NULL [const] */
    const struct wsd_task_ops *ops; /* [const] */
    /* The first error. [atomic: compare-and-swap from 0, before the release of `cancelled`; relaxed after joins] */
    int32_t error;
    /* [atomic: release, with it the error of the task that sets it; partner: the acquire in wsd_group_cancelled()]. So
     * a task that stops because of this flag cannot be the first to have an error. */
    uint32_t cancelled;
    uintptr_t reserved[5];
};

/* Returns whether the group, or one above it, was cancelled or has an error. Cheap: a load for each level. NULL is not
 * cancelled. Any thread, from wsd_group_begin() to the return of wsd_group_end(). Since 1. */
static inline bool wsd_group_cancelled(const struct wsd_group *group)
{
    for (; group; group = group->parent)
        if (__atomic_load_n(&group->cancelled, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

/* Cancels a group: children that have not begun are skipped, and running ones may ask. Groups below see it; groups
 * above do not. Any thread, from wsd_group_begin() to the return of wsd_group_end(); does not wait. Since 1. */
static inline void wsd_group_cancel(struct wsd_group *group)
{
    __atomic_store_n(&group->cancelled, 1u, __ATOMIC_RELEASE);
}

/* Begins a group, below `parent` (NULL: none; it must outlive this one). The calling task owns it: only this task
 * spawns into it and ends it. A child that wants to add work begins a group of its own with this one as parent.
 * Origin: task_block of N4411, sync of Cilk, task_group of TBB. Since 1. */
static inline void wsd_group_begin(struct wsd_worker *self, struct wsd_group *group, struct wsd_group *parent)
{
    self->ops->group_begin(self, group, parent);
}

/* Adds fn(arg) as a child, which may run on any worker, before or in wsd_group_end(). Once the group is cancelled, the
 * child does not start. Never fails.
 *
 * A group and other children of the task nest like brackets. What was spawned after the group's first child is joined
 * before the group's end. A group that was begun later is ended earlier. Since 1. */
static inline void wsd_group_spawn(struct wsd_worker *self, struct wsd_group *group, wsd_work_fn *fn, void *arg)
{
    self->ops->group_spawn(self, group, fn, arg);
}

/* Joins all children, youngest first. Returns 0 if each has run and returned 0; else the first error; else -ECANCELED
 * if the group or one above it was cancelled. End every group that was begun, in its task. Since 1. */
static inline int wsd_group_end(struct wsd_worker *self, struct wsd_group *group)
{
    return self->ops->group_end(self, group);
}

/* --- loops --- */

/* wsd_for() with errors: calls body(self, own group, begin, end, arg) for pieces of the range, in any order, in
 * parallel. A piece is never empty, and never larger than the grain unless that is 0. Returns 0, the first error, or
 * -ECANCELED. A piece costs some nanoseconds if none is stolen. Since 1. */
static inline int wsd_for_each(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end,
                               uint64_t grain, wsd_each_fn *body, void *arg)
{
    return self->ops->for_each(self, group, begin, end, grain, body, arg);
}

/* Finds the lowest index that `find` finds, and sets *ret_index to it. If there is none, as in an empty range, sets it
 * to `end`.
 *
 * The call find(self, own group, begin, end, arg, &index) searches a piece, from its begin on, and sets index to the
 * lowest hit. The hit must lie in the piece; without a hit it leaves index alone. Pieces at or above the best index so
 * far are skipped. Pieces that the pool chose (grain 0) are searched in sixteenths, so that a running piece ends early.
 *
 * Returns 0. Otherwise returns the first error, even if a lower index was found, or -ECANCELED; *ret_index is untouched
 * then. Origin: find_if of parallel STLs, over a minimum kept by compare-and-swap. Since 1. */
static inline int wsd_find_first(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end,
                                 uint64_t grain, wsd_find_fn *find, void *arg, uint64_t *ret_index)
{
    return self->ops->find_first(self, group, begin, end, grain, find, arg, ret_index);
}

/* --- reduce --- */

/* How to reduce a range to one value, of any type. Since 1. */
struct wsd_reduction {
    size_t size; /* bytes of a value, at least 1; values are aligned to 64 bytes, except the result */
    /* The neutral element: combining with it changes nothing. Either `size` bytes that are copied, or NULL, and then
     * init(value, arg) makes it. One of the two is required. */
    const void *identity;
    int (*init)(void *value, void *arg);
    /* Adds the indices of a piece to the value, which holds the neutral element. Best in a local, stored at the end. */
    int (*body)(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *value, void *arg);
    /* left = left o right, where left is that of the lower indices. Associative; need not commute. */
    int (*combine)(struct wsd_worker *self, struct wsd_group *group, void *left, void *right, void *arg);
    /* Frees what a value owns; NULL if it owns nothing. Called once for each value that was made, except the result of
     * a reduction that returns 0. Not called if init failed. */
    void (*fini)(void *value, void *arg);
    void *arg;
    uintptr_t reserved[4];
};

/* Reduces the range in the order of its indices. *ret_value (of reduction->size bytes, not yet initialised) gets the
 * result; for an empty range that is the neutral element. With a grain the order of all operations is fixed, so sums of
 * floating point numbers are the same bit by bit on any number of workers. With grain 0 they may differ by rounding.
 *
 * Returns 0. Otherwise *ret_value has no meaning, and it returns the first error, -ECANCELED, -ENOMEM (values above 256
 * bytes are on the heap) or -EINVAL (no size, no identity). Origin: parallel_reduce of TBB, reducers of Cilk++. Since
 * 1. */
static inline int wsd_reduce(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end,
                             uint64_t grain, const struct wsd_reduction *reduction, void *ret_value)
{
    return self->ops->reduce(self, group, begin, end, grain, reduction, ret_value);
}

/* --- scan --- */

enum wsd_scan_kind {
    WSD_SCAN_INCLUSIVE = 0, /* out[i] = initial o in[0] o ... o in[i] */
    WSD_SCAN_EXCLUSIVE = 1, /* out[i] = initial o in[0] o ... o in[i - 1] */
};

/* Running sums of an array, of any associative operation. Since 1. */
struct wsd_scan_args {
    const void *in; /* `count` elements of `size` bytes; they are copied as bytes */
    void *out;      /* as many: the same array, or one that does not overlap */
    uint64_t count;
    size_t size;    /* at least 1 */
    uint64_t grain; /* elements of a block; 0: chosen, at least 64 */
    uint32_t kind;  /* enum wsd_scan_kind */
    uint32_t reserved_kind;
    const void *initial; /* one element to begin with; NULL: none, only if inclusive */
    /* left = left o right. Associative; need not commute. */
    int (*combine)(void *left, const void *right, void *arg);
    void *arg;
    void *ret_total; /* NULL, or gets initial o all elements on success; untouched if there are no elements */
    uintptr_t reserved[4];
};

/* Runs a scan. One worker scans blocks from the left, in one pass, as a plain loop would. Another worker that steals
 * blocks further right sums them up first, and scans them in parallel once the value to their left is known. So one
 * worker alone combines count times, and many together at most about twice that. (Blelloch's up and down sweep over
 * blocks, the up sweep only for stolen blocks, as in parallel_scan of TBB.)
 *
 * Returns 0. Otherwise `out` may hold anything, and it returns the first error, -ECANCELED, -ENOMEM or -EINVAL (no
 * size, no such kind, exclusive without initial). The heap holds a few elements a block. Since 1. */
static inline int wsd_scan(struct wsd_worker *self, struct wsd_group *group, const struct wsd_scan_args *scan)
{
    return self->ops->scan(self, group, scan);
}

/* --- sort --- */

/* Sorts `count` elements of `size` bytes at base, as qsort_r() does, and keeps the order of equal ones (stable). The
 * result of compare(a, b, arg) is negative, 0 or positive if a is before, equal to or after b. It may get copies of
 * elements, at the alignment of the array up to 64. If it contradicts itself, the order is useless, but nothing worse
 * happens.
 *
 * Returns 0; -ENOMEM with the array untouched (it needs count x size bytes more); -EINVAL (size 0); or -ECANCELED: the
 * array then holds all its elements in no order.
 *
 * This is a merge sort. Merges are split by rank, so that the last one is parallel too (Cormen et al., 27.3; Siebert
 * and Traeff, Perfectly load-balanced, stable, synchronization-free parallel merge, 2013). Elements above some 64 bytes
 * are cheaper sorted by pointers to them. Since 1. */
static inline int wsd_sort(struct wsd_worker *self, struct wsd_group *group, void *base, uint64_t count, size_t size,
                           wsd_compare_fn *compare, void *arg)
{
    return self->ops->sort(self, group, base, count, size, compare, arg);
}

/* --- pipeline --- */

/* The most stages and tokens of a pipeline. Since 1. */
#define WSD_STAGES_MAX 64
#define WSD_TOKENS_MAX 65536

enum wsd_stage_kind {
    WSD_STAGE_PARALLEL = 0, /* any number of items at once */
    WSD_STAGE_ORDERED = 1,  /* one at a time, in the order in which the first stage made them */
    WSD_STAGE_SERIAL = 2,   /* one at a time, in any order */
};

/* One stage. Since 1. */
struct wsd_stage {
    /* *item comes from the stage before; what this stage leaves there goes on. If it leaves NULL, later stages are
     * not called for this item. The first stage finds NULL and makes an item; when it leaves NULL, there are no more
     * items, and it is not called again. What the last stage leaves is ignored. If a stage fails, what it leaves is
     * dropped. */
    int (*run)(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg);
    void *arg;
    uint32_t kind; /* enum wsd_stage_kind; the first is not PARALLEL */
    uint32_t reserved_kind;
    uintptr_t reserved[4];
};

/* Takes items through the stages, at most `tokens` at a time (0: four for each worker), until the first stage makes no
 * more. No worker waits for a turn. An item that comes too early is put aside; the worker that leaves the stage takes
 * the next one, or lets others take it. A stage that is not PARALLEL is never called twice at once, and each call sees
 * what the one before it wrote.
 *
 * After an error, or once cancelled, no further stage is called. Each item under way is given once to drop(item, stage,
 * arg), on any worker; `stage` is the one that failed, or that would have been next. drop may be NULL.
 *
 * Returns 0; else the first error, -ECANCELED, -ENOMEM or -EINVAL (no such kind, numbers out of range). Origin:
 * parallel_pipeline of TBB. Since 1. */
static inline int wsd_pipeline(struct wsd_worker *self, struct wsd_group *group, const struct wsd_stage *stages,
                               uint32_t n_stages, uint32_t tokens, wsd_drop_fn *drop, void *arg)
{
    return self->ops->pipeline(self, group, stages, n_stages, tokens, drop, arg);
}

#ifdef __cplusplus
}
#endif

#endif
