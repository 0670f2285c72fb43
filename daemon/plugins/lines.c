/* SPDX-License-Identifier: Apache-2.0
 *
 * lines.c: finding lines, and a merge sort that forks at each half and in each merge.
 * Owns nothing. The caller's two arrays take turns as source and destination, so that each level copies once.
 * Does not read or write. */
#include "plugins/lines.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "wsd/task.h"

#define INSERT 24u   /* lines that are sorted by insertion */
#define FORK   4096u /* lines that are worth a task */

size_t lines_count(const char *data, size_t size)
{
    size_t n = size && data[size - 1] != '\n';

    for (size_t i = 0; i < size; i++)
        n += data[i] == '\n';
    return n;
}

struct line *lines_new(size_t n)
{
    struct line *lines = reallocarray(NULL, n + 1, sizeof(*lines));

    prefer_large_pages(lines, n * sizeof(*lines));
    return lines;
}

bool lines_find(const char *data, size_t size, struct line *ret_lines, size_t n)
{
    const char *end = data + size;

    for (; data < end && n > 0; n--) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        size_t length = (size_t)((newline ? newline : end) - data);

        *ret_lines++ = (struct line){.data = data, .size = length, .key = line_key(data, length)};
        data += length + 1;
    }
    return n == 0 && data >= end;
}

static void merge_here(const struct line *a, size_t n_a, const struct line *b, size_t n_b, struct line *out)
{
    while (n_a && n_b) {
        if (line_compare(b, a) < 0) {
            *out++ = *b++;
            n_b--;
        } else {
            *out++ = *a++;
            n_a--;
        }
    }
    memcpy(out, a, n_a * sizeof(*a));
    memcpy(out + n_a, b, n_b * sizeof(*b));
}

/* How many of the sorted lines come before this one. */
static size_t lower_bound(const struct line *lines, size_t n, const struct line *line)
{
    size_t begin = 0;

    while (n) {
        size_t half = n / 2;

        if (line_compare(&lines[begin + half], line) < 0) {
            begin += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return begin;
}

/* Two sorted runs, one after the other: the second one begins at b. */
WSD_VOID_TASK_5(merge, const struct line *, a, size_t, n_a, const struct line *, b, size_t, n_b, struct line *, out)
{
    if (n_a + n_b <= 2 * FORK) {
        merge_here(a, n_a, b, n_b, out);
        return;
    }
    if (n_a < n_b) {
        const struct line *swap = a;
        size_t n_swap = n_a;

        a = b;
        n_a = n_b;
        b = swap;
        n_b = n_swap;
    }

    size_t cut_a = n_a / 2, cut_b = lower_bound(b, n_b, &a[cut_a]);

    WSD_SPAWN(merge, a, cut_a, b, cut_b, out);
    WSD_CALL(merge, a + cut_a, n_a - cut_a, b + cut_b, n_b - cut_b, out + cut_a + cut_b);
    WSD_SYNC(merge);
}

static void insertion_sort(struct line *lines, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct line line = lines[i];
        size_t j = i;

        for (; j && line_compare(&line, &lines[j - 1]) < 0; j--)
            lines[j] = lines[j - 1];
        lines[j] = line;
    }
}

static void sort_here(struct line *lines, struct line *spare, size_t n, bool to_spare)
{
    size_t half = n / 2;

    if (n <= INSERT) {
        insertion_sort(lines, n);
        if (to_spare)
            memcpy(spare, lines, n * sizeof(*lines));
        return;
    }
    sort_here(lines, spare, half, !to_spare);
    sort_here(lines + half, spare + half, n - half, !to_spare);
    if (to_spare)
        merge_here(lines, half, lines + half, n - half, spare);
    else
        merge_here(spare, half, spare + half, n - half, lines);
}

WSD_VOID_TASK_5(sort_lines, struct wsd_job *, job, struct line *, lines, struct line *, spare, size_t, n, bool,
                to_spare)
{
    size_t half = n / 2;

    if (wsd_job_cancelled(job))
        return;
    if (n <= FORK) {
        sort_here(lines, spare, n, to_spare);
        return;
    }
    WSD_SPAWN(sort_lines, job, lines, spare, half, !to_spare);
    WSD_CALL(sort_lines, job, lines + half, spare + half, n - half, !to_spare);
    WSD_SYNC(sort_lines);
    if (wsd_job_cancelled(job))
        return;
    if (to_spare)
        WSD_CALL(merge, lines, half, lines + half, n - half, spare);
    else
        WSD_CALL(merge, spare, half, spare + half, n - half, lines);
}

bool lines_sort(struct wsd_worker *self, struct wsd_job *job, struct line *lines, struct line *spare, size_t n)
{
    WSD_CALL(sort_lines, job, lines, spare, n, false);
    return !wsd_job_cancelled(job);
}
