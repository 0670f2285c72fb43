/* SPDX-License-Identifier: Apache-2.0
 *
 * sort.c: stable merge sort of elements of any size.
 * Owns, during a call, a scratch array as large as the caller's. Runs move from one to the other and back, level by
 * level, so nothing is copied that is not merged.
 * Keeps: at each moment every range of a level lies, complete and once, in one of the two arrays. This also holds if
 * the comparison contradicts itself, and if the form is cancelled: then the rest is moved instead of merged, so that
 * the caller has all elements.
 * Looks at elements only through the comparison. */

#include "pool/sort.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/group.h"

/* Elements: below so many insertion is cheaper; pieces of so many are worth a task, with a comparison of 5 ns. */
#define INSERT_MOST 12u
#define PIECE       2048u

struct sort {
    struct wsd_group group;
    wsd_compare_fn *compare;
    void *arg;
    size_t size;
};

static inline unsigned char *element(const struct sort *s, unsigned char *base, uint64_t i)
{
    return base + i * s->size;
}

static inline bool in_order(const struct sort *s, const unsigned char *a, const unsigned char *b)
{
    return s->compare(a, b, s->arg) <= 0;
}

static void move_elements(const struct sort *s, unsigned char *to, const unsigned char *from, uint64_t n)
{
    if (n)
        memcpy(to, from, n * s->size);
}

/* spare: room for one element. */
static void insert_sort(const struct sort *s, unsigned char *base, uint64_t n, unsigned char *spare)
{
    for (uint64_t i = 1; i < n; i++) {
        uint64_t at = i;
        unsigned char *next = element(s, base, i);
        while (at > 0 && !in_order(s, element(s, base, at - 1), next))
            at--;
        if (at == i)
            continue;
        element_copy(spare, next, s->size);
        memmove(element(s, base, at + 1), element(s, base, at), (i - at) * s->size);
        element_copy(element(s, base, at), spare, s->size);
    }
}

/* Two neighbouring runs of `from`, in order each, to one of `to`. */
struct merge {
    const struct sort *sort;
    unsigned char *left, *right;
    uint64_t n_left, n_right;
    unsigned char *to;
};

static void merge_serial(const struct merge *m)
{
    const struct sort *s = m->sort;
    unsigned char *left = m->left, *right = m->right, *to = m->to;
    const unsigned char *left_end = element(s, left, m->n_left), *right_end = element(s, right, m->n_right);

    while (left < left_end && right < right_end) {
        unsigned char **first = in_order(s, left, right) ? &left : &right;
        element_copy(to, *first, s->size);
        *first += s->size;
        to += s->size;
    }
    if (left < left_end)
        memcpy(to, left, (size_t)(left_end - left));
    else if (right < right_end)
        memcpy(to, right, (size_t)(right_end - right));
}

/* How many of the first k of the merged run come from the left. Whatever the comparison says: at most n_left, and at
 * most n_right from the right. */
static uint64_t merge_rank(const struct merge *m, uint64_t k)
{
    uint64_t lo = k > m->n_right ? k - m->n_right : 0, hi = MIN(k, m->n_left);

    while (lo < hi) {
        uint64_t i = lo + (hi - lo) / 2;
        if (in_order(m->sort, element(m->sort, m->left, i), element(m->sort, m->right, k - i - 1)))
            lo = i + 1;
        else
            hi = i;
    }
    return lo;
}

WSD_VOID_TASK_6(merge_runs, const struct sort *, s, unsigned char *, left, uint64_t, n_left, unsigned char *, right,
                uint64_t, n_right, unsigned char *, to)
{
    uint32_t spawned = 0;
    struct merge m = {s, left, right, n_left, n_right, to};

    while (m.n_left + m.n_right > PIECE && m.n_left && m.n_right && !wsd_group_cancelled(&s->group)) {
        uint64_t half = (m.n_left + m.n_right) / 2, i = merge_rank(&m, half), j = half - i;
        WSD_SPAWN(merge_runs, s, element(s, m.left, i), m.n_left - i, element(s, m.right, j), m.n_right - j,
                  element(s, m.to, half));
        spawned++;
        m.n_left = i;
        m.n_right = j;
    }
    if (wsd_group_cancelled(&s->group)) {
        move_elements(s, m.to, m.left, m.n_left);
        move_elements(s, element(s, m.to, m.n_left), m.right, m.n_right);
    } else {
        merge_serial(&m);
    }
    while (spawned--)
        WSD_SYNC(merge_runs);
}

/* Sorts n elements at base, into place or, where `over`, to the same place of the other array. */
WSD_VOID_TASK_5(sort_range, const struct sort *, s, unsigned char *, base, unsigned char *, other, uint64_t, n, bool,
                over)
{
    if (n <= INSERT_MOST || wsd_group_cancelled(&s->group)) {
        if (n <= INSERT_MOST)
            insert_sort(s, base, n, other);
        if (over)
            move_elements(s, other, base, n);
        return;
    }
    uint64_t half = n / 2;
    unsigned char *right = element(s, base, half), *other_right = element(s, other, half);
    unsigned char *from = over ? base : other, *to = over ? other : base;
    if (n > PIECE) {
        WSD_SPAWN(sort_range, s, right, other_right, n - half, !over);
        WSD_CALL(sort_range, s, base, other, half, !over);
        WSD_SYNC(sort_range);
    } else {
        WSD_CALL(sort_range, s, base, other, half, !over);
        WSD_CALL(sort_range, s, right, other_right, n - half, !over);
    }
    unsigned char *from_right = element(s, from, half);
    if (in_order(s, from_right - s->size, from_right)) {
        move_elements(s, to, from, n); /* in order already */
    } else if (s->compare(from, element(s, from, n - 1), s->arg) > 0) {
        move_elements(s, to, from_right, n - half); /* each on the right is before each on the left */
        move_elements(s, element(s, to, n - half), from, half);
    } else {
        WSD_CALL(merge_runs, s, from, half, from_right, n - half, to);
    }
}

int form_sort(struct wsd_worker *self, struct wsd_group *group, void *base, uint64_t count, size_t size,
              wsd_compare_fn *compare, void *arg)
{
    struct sort s = {.compare = compare, .arg = arg, .size = size};

    if (size == 0)
        return -EINVAL;
    _cleanup_(freep) unsigned char *scratch = count > 1 ? lines_alloc(count, size) : NULL;
    if (count > 1 && !scratch)
        return -ENOMEM;
    wsd_group_begin(self, &s.group, group);
    if (count > 1)
        WSD_CALL(sort_range, &s, base, scratch, count, false);
    return wsd_group_end(self, &s.group);
}
