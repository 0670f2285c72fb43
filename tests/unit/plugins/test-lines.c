/* SPDX-License-Identifier: Apache-2.0
 *
 * test-lines.c: finding, comparing and sorting lines, with a pool of several sizes. */
#include "plugins/lines.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "pool/pool.h"

START_TEST(lines_are_found_with_and_without_last_newline)
{
    static const char text[] = "one\n\ntwo\0x\nlast";
    struct line lines[4];

    ck_assert_uint_eq(lines_count(text, 0), 0);
    ck_assert_uint_eq(lines_count("\n", 1), 1);
    ck_assert_uint_eq(lines_count(text, sizeof(text) - 1), 4);
    ck_assert(lines_find(text, sizeof(text) - 1, lines, 4));
    ck_assert_uint_eq(lines[0].size, 3);
    ck_assert_uint_eq(lines[1].size, 0);
    ck_assert_uint_eq(lines[2].size, 5);
    ck_assert_uint_eq(lines[3].size, 4);
    ck_assert_ptr_eq(lines[3].data, text + 11);
}
END_TEST

/* Others write to a file while it is sorted: there are other lines than were counted. */
START_TEST(no_more_lines_are_found_than_were_counted)
{
    struct line lines[3] = {{.data = NULL}};

    ck_assert(!lines_find("a\nb\nc\n", 6, lines, 2));
    ck_assert_ptr_null(lines[2].data);
    ck_assert(!lines_find("a\nb", 3, lines, 3));
    ck_assert(!lines_find("a", 1, lines, 0));
    ck_assert(lines_find("", 0, lines, 0));
}
END_TEST

static int compare(const char *a, size_t size_a, const char *b, size_t size_b)
{
    struct line x, y;

    /* An empty text has no line; only sizes above 0 here. */
    ck_assert(lines_find(a, size_a, &x, 1) && lines_find(b, size_b, &y, 1));
    int r = line_compare(&x, &y);
    ck_assert_int_eq(r > 0, line_compare(&y, &x) < 0);
    return (r > 0) - (r < 0);
}

START_TEST(lines_compare_as_bytes_shorter_first)
{
    ck_assert_int_eq(compare("a", 1, "b", 1), -1);
    ck_assert_int_eq(compare("a", 1, "a", 1), 0);
    ck_assert_int_eq(compare("a", 1, "a\0", 2), -1);
    ck_assert_int_eq(compare("a\0", 2, "a\0\0", 3), -1);
    ck_assert_int_eq(compare("\x7f", 1, "\x80", 1), -1);
    ck_assert_int_eq(compare("12345678", 8, "12345678\0", 9), -1);
    ck_assert_int_eq(compare("12345678a", 9, "12345678b", 9), -1);
    ck_assert_int_eq(compare("12345678b", 9, "12345678ab", 10), 1);
}
END_TEST

/* ---- sorting as a job ---- */

static bool cancelled_at_once;

static bool cancelled(struct wsd_job *job)
{
    return cancelled_at_once;
}

static const struct wsd_job_ops ops = {.size = sizeof(ops), .cancelled = cancelled};

struct sort {
    struct pool_node node;
    struct line *lines, *spare;
    size_t n;
    bool result;
    sem_t done;
};

static void run_sort(struct pool_node *node, struct wsd_worker *self)
{
    struct sort *sort = container_of(node, struct sort, node);
    struct wsd_job job = {.size = sizeof(job), .ops = &ops};

    sort->result = lines_sort(self, &job, sort->lines, sort->spare, sort->n);
    sem_post(&sort->done);
}

static bool sort_in_pool(struct line *lines, size_t n, uint32_t workers)
{
    _cleanup_(freep) struct line *spare = calloc(n + 1, sizeof(*spare));
    struct sort sort = {.node = {.run = run_sort}, .lines = lines, .spare = spare, .n = n};
    struct pool *pool = NULL;

    ck_assert_int_eq(sem_init(&sort.done, 0, 0), 0);
    ck_assert_int_eq(pool_new(&pool, &(struct pool_options){.workers = workers}), 0);
    ck_assert_int_eq(pool_submit(pool, &sort.node), 0);
    while (sem_wait(&sort.done) < 0)
        ;
    pool_free(pool);
    sem_destroy(&sort.done);
    return sort.result;
}

static const uint32_t workers[] = {1, 2, 16};

START_TEST(sorted_lines_are_the_same_lines_in_order)
{
    static const size_t sizes[] = {0, 1, 2, 24, 25, 4096, 4097, 8193, 100000};
    unsigned seed = 7;

    for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
        size_t n = sizes[s];
        _cleanup_(freep) char *text = malloc(n * 4 + 1);
        _cleanup_(freep) struct line *lines = calloc(n + 1, sizeof(*lines));
        uint64_t before = 0, after = 0;

        for (size_t i = 0; i < n; i++) {
            for (unsigned j = 0; j < 3; j++)
                text[4 * i + j] = (char)('a' + rand_r(&seed) % 26);
            text[4 * i + 3] = '\n';
        }
        ck_assert(lines_find(text, n * 4, lines, n));
        for (size_t i = 0; i < n; i++)
            before += (uintptr_t)lines[i].data;
        ck_assert(sort_in_pool(lines, n, workers[_i]));
        for (size_t i = 0; i < n; i++) {
            after += (uintptr_t)lines[i].data;
            ck_assert(i == 0 || line_compare(&lines[i - 1], &lines[i]) <= 0);
        }
        ck_assert_uint_eq(before, after);
    }
}
END_TEST

START_TEST(cancelled_sort_ends_and_says_so)
{
    struct line lines[2] = {{.data = "b", .size = 1}, {.data = "a", .size = 1}};

    cancelled_at_once = true;
    ck_assert(!sort_in_pool(lines, 2, workers[_i]));
    cancelled_at_once = false;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins/lines");
    TCase *tcase = tcase_create("lines");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, lines_are_found_with_and_without_last_newline);
    tcase_add_test(tcase, no_more_lines_are_found_than_were_counted);
    tcase_add_test(tcase, lines_compare_as_bytes_shorter_first);
    tcase_add_loop_test(tcase, sorted_lines_are_the_same_lines_in_order, 0, (int)ARRAY_SIZE(workers));
    tcase_add_loop_test(tcase, cancelled_sort_ends_and_says_so, 0, (int)ARRAY_SIZE(workers));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
