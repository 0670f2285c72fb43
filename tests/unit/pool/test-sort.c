/* SPDX-License-Identifier: Apache-2.0
 *
 * test-sort.c: wsd_sort(): order, stability, elements of any size, and that none is lost. */
#include "forms.h"

#define MOST (SLOW ? 20000 : 100000)

static _Atomic uint64_t compared, wrong;
static unsigned char array[MOST * 40];

/* An element: its key, and where it was; the rest of its bytes say the same again. */
struct layout {
    size_t size;
    struct wsd_group *group; /* to be cancelled at the 1,000th comparison */
};

static void put(const struct layout *l, uint64_t i, uint32_t key)
{
    unsigned char *e = array + i * l->size;
    uint32_t what[2] = {key, (uint32_t)i};

    memcpy(e, what, l->size < 8 ? l->size : 8);
    for (size_t b = 8; b < l->size; b++)
        e[b] = (unsigned char)(key + i + b);
}

static uint32_t key_of(const void *e, const struct layout *l)
{
    uint32_t key = 0;

    memcpy(&key, e, l->size < 4 ? l->size : 4);
    return key;
}

static int by_key(const void *a, const void *b, void *arg)
{
    struct layout *l = arg;
    uint32_t x = key_of(a, l), y = key_of(b, l);

    if (atomic_fetch_add_explicit(&compared, 1, memory_order_relaxed) == 1000 && l->group)
        wsd_group_cancel(l->group);
    wrong += l->size % 8 == 0 && ((uintptr_t)a % 8 || (uintptr_t)b % 8);
    return (x > y) - (x < y);
}

static int by_chance(const void *a, const void *b, void *arg)
{
    static __thread uint64_t seed = 99;

    return (int)(random_next(&seed) % 3) - 1;
}

enum pattern { RANDOM, FEW, EQUAL, SORTED, REVERSE, ORGAN, PATTERNS };

static void fill(const struct layout *l, uint64_t n, enum pattern p)
{
    uint64_t seed = 88172645463325252u + n;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t x = p == RANDOM    ? random_next(&seed)
                     : p == FEW     ? random_next(&seed) % 5
                     : p == SORTED  ? i
                     : p == REVERSE ? n - i
                     : p == ORGAN   ? (i < n / 2 ? i : n - i)
                                    : 7;
        put(l, i, (uint32_t)x);
    }
}

/* Each element is there once and whole: indices are checked by a map of those seen. */
static void check_all_there(const struct layout *l, uint64_t n)
{
    static unsigned char seen[MOST];

    if (l->size < 8)
        return;
    memset(seen, 0, n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t what[2];
        memcpy(what, array + i * l->size, 8);
        wrong += what[1] >= n || seen[what[1]]++;
        for (size_t b = 8; b < l->size; b++)
            wrong += array[i * l->size + b] != (unsigned char)(what[0] + what[1] + b);
    }
}

static void check_order(const struct layout *l, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++) {
        unsigned char *e = array + i * l->size, *before = e - l->size;
        uint32_t key = key_of(e, l), key_before = key_of(before, l);
        wrong += key < key_before;
        if (l->size >= 8 && key == key_before)
            wrong += *(uint32_t *)(void *)(before + 4) >= *(uint32_t *)(void *)(e + 4);
    }
}

static void do_patterns(struct wsd_worker *self, void *arg)
{
    static const size_t element_sizes[] = {1, 3, 4, 8, 12, 16, 40};
    static const uint64_t counts[] = {0, 1, 2, 3, 12, 13, 24, 25, 2047, 2048, 2049, 4097, 20000, MOST};

    for (size_t e = 0; e < 7; e++)
        for (size_t c = 0; c < (SLOW ? 12 : 14); c++) {
            /* Under an emulator each pool has a third of the element sizes in large arrays. */
            if (counts[c] > 25 && (e + *(uint32_t *)arg) % count_for(1, 3) != 0)
                continue;
            /* The largest count goes on for seconds, so it has elements with an index and without only. */
            if (counts[c] > 20000 && element_sizes[e] != 4 && element_sizes[e] != 12 && !thorough())
                continue;
            for (enum pattern p = 0; p < PATTERNS; p++) {
                struct layout l = {.size = element_sizes[e]};
                uint64_t bytes[2] = {0}, n = counts[c];
                fill(&l, n, p);
                for (size_t b = 0; b < n * l.size; b++)
                    bytes[0] += array[b];
                ck_assert_int_eq(wsd_sort(self, NULL, array, n, l.size, by_key, &l), 0);
                for (size_t b = 0; b < n * l.size; b++)
                    bytes[1] += array[b];
                ck_assert_uint_eq(bytes[0], bytes[1]);
                check_all_there(&l, n);
                check_order(&l, n);
                ck_assert_uint_eq(wrong, 0);
            }
        }
}

START_TEST(a_sort_is_stable_and_loses_nothing)
{
    on_workers(_i, do_patterns, &(uint32_t){(uint32_t)_i});
}
END_TEST

static void do_cheap(struct wsd_worker *self, void *arg)
{
    struct layout l = {.size = 8};

    for (enum pattern p = SORTED; p <= REVERSE; p++) {
        fill(&l, MOST, p);
        compared = 0;
        ck_assert_int_eq(wsd_sort(self, NULL, array, MOST, 8, by_key, &l), 0);
        ck_assert_uint_lt(compared, (p == SORTED ? 2 : 7) * MOST);
    }
    fill(&l, MOST, RANDOM);
    compared = 0;
    ck_assert_int_eq(wsd_sort(self, NULL, array, MOST, 8, by_key, &l), 0);
    ck_assert_uint_lt(compared, 19 * MOST); /* log2 is 16.6 */
}

START_TEST(what_is_in_order_or_reversed_costs_few_comparisons)
{
    on_workers(_i, do_cheap, NULL);
}
END_TEST

static void do_chance(struct wsd_worker *self, void *arg)
{
    struct layout l = {.size = 12};

    for (uint32_t i = 0; i < count_for(10, 3); i++) {
        fill(&l, MOST, RANDOM);
        ck_assert_int_eq(wsd_sort(self, NULL, array, MOST, 12, by_chance, NULL), 0);
        check_all_there(&l, MOST);
        ck_assert_uint_eq(wrong, 0);
    }
}

START_TEST(a_comparison_that_contradicts_itself_loses_nothing)
{
    on_workers(_i, do_chance, NULL);
}
END_TEST

static void do_cancelled(struct wsd_worker *self, void *arg)
{
    for (uint64_t n = 4000; n <= MOST; n += (MOST - 4000) / 3)
        for (enum pattern p = 0; p < PATTERNS; p++)
            for (uint64_t from = 0; from < 1000; from += count_for(333, 999)) {
                struct wsd_group g;
                struct layout l = {.size = 12, .group = &g};
                fill(&l, n, p);
                compared = 1000 - from;
                wsd_group_begin(self, &g, NULL);
                int error = wsd_sort(self, &g, array, n, 12, by_key, &l);
                ck_assert(wsd_group_cancelled(&g));
                ck_assert_int_eq(error, -ECANCELED);
                ck_assert_int_eq(wsd_group_end(self, &g), -ECANCELED);
                check_all_there(&l, n);
                ck_assert_uint_eq(wrong, 0);
            }
}

START_TEST(a_cancelled_sort_loses_nothing)
{
    on_workers(_i, do_cancelled, NULL);
}
END_TEST

static void do_limits(struct wsd_worker *self, void *arg)
{
    struct layout l = {.size = 8};

    fill(&l, 100, REVERSE);
    ck_assert_int_eq(wsd_sort(self, NULL, array, 100, 0, by_key, &l), -EINVAL);
    ck_assert_int_eq(wsd_sort(self, NULL, array, UINT64_MAX / 2, 8, by_key, &l), -ENOMEM);
    ck_assert_int_eq(wsd_sort(self, NULL, array, UINT64_MAX / 8, 8, by_key, &l), -ENOMEM);
    ck_assert_uint_eq(compared, 0);
    ck_assert_int_eq(wsd_sort(self, NULL, NULL, 0, 8, by_key, &l), 0);
}

START_TEST(errors_of_a_sort)
{
    on_workers(0, do_limits, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sort");
    TCase *t = tcase_create("sort");

    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_sort_is_stable_and_loses_nothing, 0, N_SIZES);
    tcase_add_loop_test(t, what_is_in_order_or_reversed_costs_few_comparisons, 0, N_SIZES);
    tcase_add_loop_test(t, a_comparison_that_contradicts_itself_loses_nothing, 0, N_SIZES);
    tcase_add_loop_test(t, a_cancelled_sort_loses_nothing, 0, N_SIZES);
    tcase_add_test(t, errors_of_a_sort);
    suite_add_tcase(s, t);
    return run_suite(s);
}
