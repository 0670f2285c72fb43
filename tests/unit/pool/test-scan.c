/* SPDX-License-Identifier: Apache-2.0
 *
 * test-scan.c: wsd_scan(), with an operation that does not commute. */
#include "forms.h"

#define MOST 5000

static const uint64_t grains[] = {0, 1, 3, 64, 1000, UINT64_MAX};
static const uint64_t counts[] = {0, 1, 2, 3, 63, 64, 65, 127, 1000, MOST};

static struct affine in[MOST], out[MOST], want[MOST];
static _Atomic uint64_t combined;

static int after(void *left, const void *right, void *arg)
{
    struct affine l, r;

    memcpy(&l, left, sizeof(l));
    memcpy(&r, right, sizeof(r));
    l = affine_after(l, r);
    memcpy(left, &l, sizeof(l));
    combined++;
    return arg && r.b == *(uint64_t *)arg ? 21 : 0;
}

/* The last of want is the total. */
static struct affine serial(const struct wsd_scan_args *s, uint64_t n)
{
    struct affine sum = {1, 0};

    if (s->initial)
        memcpy(&sum, s->initial, sizeof(sum));
    for (uint64_t i = 0; i < n; i++) {
        if (s->kind == WSD_SCAN_EXCLUSIVE)
            want[i] = sum;
        sum = affine_after(sum, in[i]);
        if (s->kind == WSD_SCAN_INCLUSIVE)
            want[i] = sum;
    }
    return sum;
}

static void fill(void)
{
    uint64_t seed = 88172645463325252u;

    for (uint64_t i = 0; i < MOST; i++)
        in[i] = (struct affine){random_next(&seed) | 1, random_next(&seed)};
}

static void check(struct wsd_worker *self, uint64_t n, uint64_t grain, int variant)
{
    static const struct affine three = {3, 5};
    struct affine total = {0, 0}, sum;
    struct wsd_scan_args s = {.in = in,
                              .out = variant & 1 ? in : out,
                              .count = n,
                              .size = sizeof(*in),
                              .grain = grain,
                              .kind = variant & 2 ? WSD_SCAN_EXCLUSIVE : WSD_SCAN_INCLUSIVE,
                              .initial = variant & 6 ? &three : NULL,
                              .combine = after,
                              .ret_total = &total};

    fill();
    sum = serial(&s, n);
    if (n == 0 && !s.initial)
        sum = (struct affine){0, 0};
    combined = 0;
    ck_assert_int_eq(wsd_scan(self, NULL, &s), 0);
    ck_assert_uint_le(combined, 2 * n + 1000 + 3 * n / (grain ? grain : 64));
    ck_assert_int_eq(memcmp(s.out, want, n * sizeof(*in)), 0);
    ck_assert_int_eq(memcmp(&total, &sum, sizeof(sum)), 0);
}

static void do_serial(struct wsd_worker *self, void *arg)
{
    for (int variant = 0; variant < 8; variant++)
        for (size_t g = 0; g < 6; g++)
            for (size_t c = 0; c < 10; c++)
                check(self, counts[c], grains[g], variant);
}

START_TEST(a_scan_equals_the_serial_one)
{
    struct pool *pool = new_pool(sizes[_i]);

    for (uint32_t i = 0; i < count_for(SLOW ? 2 : 10, 1); i++)
        run_on(pool, do_serial, NULL);
    pool_free(pool);
}
END_TEST

static void do_once(struct wsd_worker *self, void *arg)
{
    check(self, MOST, 0, 0);
    ck_assert_uint_eq(combined, MOST - 1);
    check(self, MOST, 1, 2);
    ck_assert_uint_eq(combined, MOST);
}

START_TEST(one_worker_goes_through_it_once)
{
    on_workers(0, do_once, NULL);
}
END_TEST

/* A combine that waits until another has combined further right, so that blocks are summed up ahead. */
static _Atomic bool ahead;

static int wait_for_ahead(void *left, const void *right, void *arg)
{
    uint64_t i = (uint64_t)((const struct affine *)right - in);

    if (i >= MOST / 2 && i < MOST)
        ahead = true;
    else if (i == 1)
        while (!ahead)
            sched_yield();
    return after(left, right, NULL);
}

static void do_ahead(struct wsd_worker *self, void *arg)
{
    struct wsd_scan_args s = {
        .in = in, .out = out, .count = MOST, .size = sizeof(*in), .grain = 10, .combine = wait_for_ahead};

    ahead = false;
    fill();
    serial(&s, MOST);
    ck_assert_int_eq(wsd_scan(self, NULL, &s), 0);
    ck_assert_int_eq(memcmp(out, want, sizeof(out)), 0);
}

START_TEST(what_was_summed_up_ahead_is_scanned_right)
{
    struct pool *pool = new_pool(sizes[_i]);

    for (int i = 0; i < 50; i++)
        run_on(pool, do_ahead, NULL);
    pool_free(pool);
}
END_TEST

static void do_errors(struct wsd_worker *self, void *arg)
{
    fill();
    uint64_t bad = in[3000].b;
    struct wsd_scan_args s = {
        .in = in, .out = out, .count = MOST, .size = sizeof(*in), .grain = 7, .combine = after, .arg = &bad};
    struct wsd_group g;

    combined = 0;
    ck_assert_int_eq(wsd_scan(self, NULL, &s), 21);
    ck_assert(*(int *)arg || combined == 3000);
    wsd_group_begin(self, &g, NULL);
    wsd_group_cancel(&g);
    combined = 0;
    ck_assert_int_eq(wsd_scan(self, &g, &s), -ECANCELED);
    ck_assert_uint_eq(combined, 0);
    ck_assert_int_eq(wsd_group_end(self, &g), -ECANCELED);
    s.kind = WSD_SCAN_EXCLUSIVE;
    ck_assert_int_eq(wsd_scan(self, NULL, &s), -EINVAL);
    s.kind = 2;
    s.initial = in;
    ck_assert_int_eq(wsd_scan(self, NULL, &s), -EINVAL);
    s.kind = 0;
    s.size = 0;
    ck_assert_int_eq(wsd_scan(self, NULL, &s), -EINVAL);
    s.size = SIZE_MAX;
    ck_assert_int_eq(wsd_scan(self, NULL, &s), -ENOMEM);
    s.size = 16;
    s.grain = 1;
    s.count = UINT64_MAX;
    ck_assert_int_eq(wsd_scan(self, NULL, &s), -ENOMEM);
}

START_TEST(errors_of_a_scan)
{
    on_workers(_i, do_errors, &_i);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scan");
    TCase *t = tcase_create("scan");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_scan_equals_the_serial_one, 0, N_SIZES);
    tcase_add_test(t, one_worker_goes_through_it_once);
    tcase_add_loop_test(t, what_was_summed_up_ahead_is_scanned_right, 1, N_SIZES);
    tcase_add_loop_test(t, errors_of_a_scan, 0, N_SIZES);
    suite_add_tcase(s, t);
    return run_suite(s);
}
