/* SPDX-License-Identifier: Apache-2.0
 *
 * test-each.c: wsd_for_each() and wsd_find_first(), and how ranges are cut. */
#include "forms.h"

#include "pool/group.h"

#define MOST 5000

static const uint64_t grains[] = {0, 1, 2, 7, 100, MOST, UINT64_MAX};
static const uint64_t counts[] = {0, 1, 2, 3, 63, 64, 65, 1000, MOST};

static struct {
    uint64_t begin, end, grain;
    _Atomic uint64_t calls, looked, wrong;
    _Atomic unsigned char hits[MOST];
} range;

static int hit(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    range.calls++;
    range.wrong += begin >= end || (range.grain && end - begin > range.grain) || arg != &range;
    for (uint64_t i = begin; i < end; i++)
        range.hits[i - range.begin]++;
    return 0;
}

static void do_visits(struct wsd_worker *self, void *arg)
{
    for (size_t g = 0; g < 7; g++)
        for (size_t c = 0; c < 9; c++) {
            memset((void *)range.hits, 0, sizeof(range.hits));
            range.grain = grains[g];
            range.begin = c % 2 ? 0 : UINT64_MAX - MOST;
            range.end = range.begin + counts[c];
            ck_assert_int_eq(wsd_for_each(self, NULL, range.begin, range.end, range.grain, hit, &range), 0);
            for (uint64_t i = 0; i < MOST; i++)
                range.wrong += range.hits[i] != (i < counts[c]);
        }
    ck_assert_int_eq(wsd_for_each(self, NULL, 10, 5, 0, hit, &range), 0);
    ck_assert_uint_eq(range.wrong, 0);
}

START_TEST(each_index_is_visited_once)
{
    on_workers(_i, do_visits, NULL);
}
END_TEST

static void do_few(struct wsd_worker *self, void *arg)
{
    ck_assert_int_eq(wsd_for_each(self, NULL, 0, MOST, 0, hit, &range), 0);
    ck_assert_uint_eq(range.calls, 4);
}

START_TEST(pieces_are_few_without_steals)
{
    on_workers(0, do_few, NULL);
}
END_TEST

static void do_partition(struct wsd_worker *self, void *arg)
{
    struct partition p;
    uint32_t here = self->index;

    partition_init(self, &p, 8 * 4096, 0);
    ck_assert_uint_eq(p.grain, 4096); /* two workers */
    struct piece_origin o = partition_origin(self, &p);
    ck_assert_uint_eq(partition_began(&p), 0);
    ck_assert_uint_eq(partition_grain(self, &p, 4096, &o), 4096);
    o.worker = here + 1;                                          /* as where this was stolen */
    ck_assert_uint_eq(partition_grain(self, &p, 4096, &o), 4096); /* it is not known yet what it costs */
    ck_assert_uint_eq(o.worker, here);
    p.cost = UINT64_MAX;
    ck_assert_uint_ne(partition_began(&p), 0);
    ck_assert_uint_eq(partition_grain(self, &p, 4096, &o), 1024);
    ck_assert_uint_eq(partition_grain(self, &p, 1024, &o), 1024);
    o.steals--; /* as where another one was, since this was spawned */
    ck_assert_uint_eq(partition_grain(self, &p, 1024, &o), 256);
    o.steals--;
    ck_assert_uint_eq(partition_grain(self, &p, 100, &o), 64);
    o.steals--;
    ck_assert_uint_eq(partition_grain(self, &p, 64, &o), 64);
    o.steals--;
    partition_ran(&p, 1, 1); /* a year an index */
    ck_assert_uint_eq(partition_grain(self, &p, 4096, &o), 1024);
    o.steals--;
    p.cost = 1; /* all of it is next to nothing */
    ck_assert_uint_eq(partition_grain(self, &p, 4096, &o), 4096);
    partition_init(self, &p, 5, 0);
    ck_assert_uint_eq(p.grain, 1);
    partition_init(self, &p, UINT64_MAX, 0);
    ck_assert_uint_eq(p.grain, (UINT64_C(1) << 61));
    partition_init(self, &p, 1000, 10);
    o.worker = here + 1;
    ck_assert_uint_eq(partition_grain(self, &p, 10, &o), 10);
}

START_TEST(steals_make_pieces_smaller_but_for_a_grain_of_the_users)
{
    on_workers(1, do_partition, NULL);
}
END_TEST

/* --- errors --- */

static int fails_at_10(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    range.calls++;
    return begin <= 10 && 10 < end ? EIO : 0;
}

static void do_fails(struct wsd_worker *self, void *arg)
{
    for (size_t g = 0; g < 7; g++)
        ck_assert_int_eq(wsd_for_each(self, NULL, 0, MOST, grains[g], fails_at_10, NULL), EIO);
    if (*(int *)arg > 0)
        return;
    range.calls = 0;
    ck_assert_int_eq(wsd_for_each(self, NULL, 0, MOST, 1, fails_at_10, NULL), EIO);
    ck_assert_uint_eq(range.calls, 11); /* one worker goes from left to right */
}

START_TEST(an_error_is_returned_and_skips_what_has_not_begun)
{
    on_workers(_i, do_fails, &_i);
}
END_TEST

static int fails_itself(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    range.hits[begin] = 1;
    return (int)begin + 1;
}

static int second_waits(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    while (begin == 1 && !wsd_group_cancelled(group))
        sched_yield();
    return begin == 1 ? 9 : 4;
}

static void do_firsts(struct wsd_worker *self, void *arg)
{
    memset((void *)range.hits, 0, sizeof(range.hits));
    int error = wsd_for_each(self, NULL, 0, MOST, 1, fails_itself, NULL);
    ck_assert(error > 0 && error <= MOST && range.hits[error - 1]);
    ck_assert_int_eq(wsd_for_each(self, NULL, 0, 2, 1, second_waits, NULL), 4);
}

START_TEST(the_first_of_many_errors_wins_and_the_others_see_it)
{
    struct pool *pool = new_pool(sizes[_i]);

    for (int i = 0; i < 100; i++)
        run_on(pool, do_firsts, NULL);
    pool_free(pool);
}
END_TEST

static void do_cancelled(struct wsd_worker *self, void *arg)
{
    struct wsd_group g;
    struct canceller c = {.group = &g, .count = &range.calls, .enough = 100};
    uint64_t found = 77;

    range.grain = 0;
    wsd_group_begin(self, &g, NULL);
    canceller_start(&c);
    /* would take years */
    ck_assert_int_eq(wsd_for_each(self, &g, 20, UINT64_C(1) << 60, 1 << 10, fails_at_10, NULL), -ECANCELED);
    canceller_join(&c);
    range.calls = 0;
    ck_assert_int_eq(wsd_for_each(self, &g, 0, MOST, 1, hit, NULL), -ECANCELED);
    ck_assert_int_eq(wsd_for_each(self, &g, 0, 0, 1, hit, NULL), -ECANCELED);
    ck_assert_int_eq(wsd_find_first(self, &g, 0, MOST, 1, NULL, NULL, &found), -ECANCELED);
    ck_assert_uint_eq(found, 77);
    ck_assert_uint_eq(range.calls, 0);
    ck_assert_int_eq(wsd_group_end(self, &g), -ECANCELED);
}

START_TEST(another_thread_may_cancel_an_endless_loop)
{
    on_workers(_i, do_cancelled, NULL);
}
END_TEST

static int inner(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    range.calls += end - begin;
    return arg ? 3 : 0;
}

static int outer(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    for (uint64_t i = begin; i < end; i++) {
        int error = wsd_for_each(self, group, 0, i, 0, inner, i == 500 ? arg : NULL);
        if (error)
            return error;
    }
    return 0;
}

static void do_nested(struct wsd_worker *self, void *arg)
{
    range.calls = 0;
    ck_assert_int_eq(wsd_for_each(self, NULL, 0, 300, 1, outer, NULL), 0);
    ck_assert_uint_eq(range.calls, 300 * 299 / 2);
    ck_assert_int_eq(wsd_for_each(self, NULL, 0, 1000, 0, outer, &range), 3);
}

START_TEST(loops_nest)
{
    on_workers(_i, do_nested, NULL);
}
END_TEST

/* --- find --- */

static int find_hit(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                    uint64_t *ret_index)
{
    range.calls++;
    range.looked += end - begin;
    for (uint64_t i = begin; i < end; i++)
        if (range.hits[i]) {
            *ret_index = i;
            break;
        }
    return 0;
}

static void do_find(struct wsd_worker *self, void *arg)
{
    uint64_t seed = 88172645463325252u, found;

    /* one hit in: 1, all; 2, many; ...; none */
    for (uint64_t one_in = 1; one_in < 100000; one_in *= 3)
        for (size_t g = 0; g < 7; g++)
            for (size_t c = 0; c < 9; c++) {
                uint64_t begin = c % 2 ? 0 : MOST - counts[c], end = begin + counts[c], right = begin;
                for (uint64_t i = 0; i < MOST; i++)
                    range.hits[i] = random_next(&seed) % one_in == 0;
                while (right < end && !range.hits[right])
                    right++;
                ck_assert_int_eq(wsd_find_first(self, NULL, begin, end, grains[g], find_hit, NULL, &found), 0);
                ck_assert_uint_eq(found, right);
            }
}

START_TEST(the_lowest_of_many_hits_is_found)
{
    on_workers(_i, do_find, NULL);
}
END_TEST

static void do_short(struct wsd_worker *self, void *arg)
{
    uint64_t found;

    range.hits[30] = range.hits[31] = range.hits[4000] = 1;
    ck_assert_int_eq(wsd_find_first(self, NULL, 0, MOST, 1, find_hit, NULL, &found), 0);
    ck_assert_uint_eq(range.calls, 31);
    range.looked = 0;
    ck_assert_int_eq(wsd_find_first(self, NULL, 0, MOST, 0, find_hit, NULL, &found), 0);
    ck_assert_uint_eq(range.looked, MOST / 4 / 16); /* one worker: four pieces */
}

START_TEST(nothing_is_looked_at_beyond_a_hit)
{
    on_workers(0, do_short, NULL);
}
END_TEST

/* The second index is a hit too, and says so after the first: likely, not certainly, after that was noted. */
static _Atomic bool first_asked;

static int find_both(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                     uint64_t *ret_index)
{
    *ret_index = begin;
    if (begin == 0)
        first_asked = true;
    for (int i = 0; begin == 1 && (!first_asked || i < 100); i++)
        sched_yield();
    return 0;
}

static void do_late(struct wsd_worker *self, void *arg)
{
    uint64_t found;

    first_asked = false;
    ck_assert_int_eq(wsd_find_first(self, NULL, 0, 2, 1, find_both, NULL, &found), 0);
    ck_assert_uint_eq(found, 0);
}

START_TEST(a_late_hit_does_not_hide_a_lower_one)
{
    struct pool *pool = new_pool(sizes[_i]);

    for (int i = 0; i < 300; i++)
        run_on(pool, do_late, NULL);
    pool_free(pool);
}
END_TEST

static int find_fails(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                      uint64_t *ret_index)
{
    *ret_index = begin;
    return EPERM;
}

static int find_lies(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                     uint64_t *ret_index)
{
    *ret_index = begin ? begin - 1 : UINT64_MAX;
    return 0;
}

static void do_find_fails(struct wsd_worker *self, void *arg)
{
    uint64_t found = 77;

    ck_assert_int_eq(wsd_find_first(self, NULL, 0, MOST, 0, find_fails, NULL, &found), EPERM);
    ck_assert_uint_eq(found, 77);
    ck_assert_int_eq(wsd_find_first(self, NULL, 0, MOST, 0, find_lies, NULL, &found), 0);
    ck_assert_uint_eq(found, MOST);
}

START_TEST(find_passes_errors_on_and_does_not_believe_indices_outside)
{
    on_workers(_i, do_find_fails, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("each");
    TCase *t = tcase_create("each");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, each_index_is_visited_once, 0, N_SIZES);
    tcase_add_test(t, pieces_are_few_without_steals);
    tcase_add_test(t, steals_make_pieces_smaller_but_for_a_grain_of_the_users);
    tcase_add_loop_test(t, an_error_is_returned_and_skips_what_has_not_begun, 0, N_SIZES);
    tcase_add_loop_test(t, the_first_of_many_errors_wins_and_the_others_see_it, 0, N_SIZES);
    tcase_add_loop_test(t, another_thread_may_cancel_an_endless_loop, 0, N_SIZES);
    tcase_add_loop_test(t, loops_nest, 0, N_SIZES);
    tcase_add_loop_test(t, the_lowest_of_many_hits_is_found, 0, N_SIZES);
    tcase_add_loop_test(t, a_late_hit_does_not_hide_a_lower_one, 0, N_SIZES);
    tcase_add_test(t, nothing_is_looked_at_beyond_a_hit);
    tcase_add_loop_test(t, find_passes_errors_on_and_does_not_believe_indices_outside, 0, N_SIZES);
    suite_add_tcase(s, t);
    return run_suite(s);
}
