/* SPDX-License-Identifier: Apache-2.0
 *
 * test-reduce.c: wsd_reduce(), with operations that do not commute and values of any size. */
#include "forms.h"

#define MOST 5000

static const uint64_t grains[] = {0, 1, 2, 7, 64, 1000, UINT64_MAX};
static const uint64_t counts[] = {0, 1, 2, 3, 63, 64, 65, 1000, MOST};

static struct affine maps[MOST];
static _Atomic int64_t alive; /* values made and not ended */
static _Atomic uint64_t bodies, wrong;

/* A value of any size: the map, its mirror at the far end. */
struct layout {
    size_t size;
    int fails; /* 1: init, 2: body, 3: combine, at index 2,000 or the first time */
};

static void value_set(void *value, const struct layout *l, struct affine m)
{
    memcpy(value, &m, sizeof(m));
    m.a = ~m.a;
    memcpy((unsigned char *)value + l->size - sizeof(m), &m, l->size >= 2 * sizeof(m) ? sizeof(m) : 0);
}

static struct affine value_get(const void *value, const struct layout *l)
{
    struct affine m, mirror;

    memcpy(&m, value, sizeof(m));
    if (l->size >= 2 * sizeof(m)) {
        memcpy(&mirror, (const unsigned char *)value + l->size - sizeof(m), sizeof(m));
        wrong += mirror.a != ~m.a || mirror.b != m.b;
    }
    return m;
}

static int value_init(void *value, void *arg)
{
    struct layout *l = arg;

    if (l->fails == 1)
        return 11;
    value_set(value, l, (struct affine){1, 0});
    alive++;
    return 0;
}

static void value_fini(void *value, void *arg)
{
    value_get(value, arg);
    alive--;
}

static int body(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *value, void *arg)
{
    struct layout *l = arg;
    struct affine m = value_get(value, l);

    bodies++;
    wrong += begin >= end || (uintptr_t)value % 8;
    for (uint64_t i = begin; i < end; i++) {
        m = affine_after(m, maps[i]);
        if (l->fails == 2 && i == 2000)
            return 12;
    }
    value_set(value, l, m);
    return 0;
}

static int combine(struct wsd_worker *self, struct wsd_group *group, void *left, void *right, void *arg)
{
    struct layout *l = arg;

    value_set(left, l, affine_after(value_get(left, l), value_get(right, l)));
    return l->fails == 3 ? 13 : 0;
}

static void maps_make(void)
{
    uint64_t seed = 88172645463325252u;

    for (uint64_t i = 0; i < MOST; i++)
        maps[i] = (struct affine){random_next(&seed) | 1, random_next(&seed)};
}

static struct affine serial(uint64_t begin, uint64_t end)
{
    struct affine m = {1, 0};

    for (; begin < end; begin++)
        m = affine_after(m, maps[begin]);
    return m;
}

static void do_serial(struct wsd_worker *self, void *arg)
{
    static const size_t value_sizes[] = {16, 48, 256, 257 + 15, 4096};
    static unsigned char value[4096];

    maps_make();
    for (size_t v = 0; v < 5; v++)
        for (size_t g = 0; g < 7; g++)
            for (size_t c = 0; c < 9; c++) {
                struct layout l = {.size = value_sizes[v]};
                struct wsd_reduction r = {.size = l.size,
                                          .init = value_init,
                                          .body = body,
                                          .combine = combine,
                                          .fini = value_fini,
                                          .arg = &l};
                uint64_t begin = c % 2 ? 0 : MOST - counts[c], end = begin + counts[c];
                alive = 0;
                ck_assert_int_eq(wsd_reduce(self, NULL, begin, end, grains[g], &r, value), 0);
                struct affine got = value_get(value, &l), want = serial(begin, end);
                ck_assert_uint_eq(got.a, want.a);
                ck_assert_uint_eq(got.b, want.b);
                ck_assert_int_eq(alive, 1);
            }
    ck_assert_uint_eq(wrong, 0);
}

START_TEST(a_reduction_equals_the_serial_one)
{
    on_workers(_i, do_serial, NULL);
}
END_TEST

static void do_errors(struct wsd_worker *self, void *arg)
{
    static unsigned char value[512];

    maps_make();
    for (int fails = 1; fails <= 3; fails++)
        for (size_t g = 0; g < 5; g++)
            for (size_t size = 16; size <= 512; size += 496) {
                struct layout l = {.size = size, .fails = fails};
                struct wsd_reduction r = {
                    .size = size, .init = value_init, .body = body, .combine = combine, .fini = value_fini, .arg = &l};
                alive = 0;
                ck_assert_int_eq(wsd_reduce(self, NULL, 0, MOST, grains[g], &r, value), 10 + fails);
                ck_assert_int_eq(alive, 0);
            }
    struct layout l = {.size = 16};
    struct wsd_reduction r = {
        .size = 16, .init = value_init, .body = body, .combine = combine, .fini = value_fini, .arg = &l};
    struct wsd_group g;
    wsd_group_begin(self, &g, NULL);
    wsd_group_cancel(&g);
    bodies = 0;
    ck_assert_int_eq(wsd_reduce(self, &g, 0, MOST, 0, &r, value), -ECANCELED);
    ck_assert_int_eq(wsd_reduce(self, &g, 0, 0, 0, &r, value), -ECANCELED);
    ck_assert_int_eq(wsd_group_end(self, &g), -ECANCELED);
    ck_assert_int_eq(alive, 0);
    ck_assert_uint_eq(bodies, 0);
    r.init = NULL;
    ck_assert_int_eq(wsd_reduce(self, NULL, 0, MOST, 0, &r, value), -EINVAL);
    r.init = value_init;
    r.size = 0;
    ck_assert_int_eq(wsd_reduce(self, NULL, 0, MOST, 0, &r, value), -EINVAL);
    r.size = (size_t)-1; /* has no right halves in memory */
    ck_assert_int_eq(wsd_reduce(self, NULL, 0, 2, 1, &r, value), -ENOMEM);
}

START_TEST(the_first_error_is_returned_and_no_value_is_left_over)
{
    on_workers(_i, do_errors, NULL);
}
END_TEST

static void do_skips(struct wsd_worker *self, void *arg)
{
    struct layout l = {.size = 16, .fails = 2};
    struct wsd_reduction r = {.size = 16, .init = value_init, .body = body, .combine = combine, .arg = &l};
    struct affine value;

    maps_make();
    ck_assert_int_eq(wsd_reduce(self, NULL, 0, MOST, 1, &r, &value), 12);
    ck_assert_uint_eq(bodies, 2001); /* one worker goes from left to right */
}

START_TEST(no_piece_begins_after_an_error)
{
    on_workers(0, do_skips, NULL);
}
END_TEST

/* --- floating point --- */

static int add_body(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *value,
                    void *arg)
{
    double sum = *(double *)value;

    for (uint64_t i = begin; i < end; i++)
        sum += 1.0 / (double)(i + 1);
    *(double *)value = sum;
    return 0;
}

static int add(struct wsd_worker *self, struct wsd_group *group, void *left, void *right, void *arg)
{
    *(double *)left += *(double *)right;
    return 0;
}

static const double zero;
static const struct wsd_reduction sum = {.size = sizeof(double), .identity = &zero, .body = add_body, .combine = add};

static double halves(uint64_t begin, uint64_t end, uint64_t grain)
{
    double value = 0;

    if (end - begin <= grain) {
        add_body(NULL, NULL, begin, end, &value, NULL);
        return value;
    }
    uint64_t middle = begin + (end - begin) / 2;
    value = halves(begin, middle, grain);
    return value + halves(middle, end, grain);
}

static void do_bits(struct wsd_worker *self, void *arg)
{
    double want = halves(0, 100000, 10), got;

    for (uint32_t i = 0; i < count_for(10, 3); i++) {
        ck_assert_int_eq(wsd_reduce(self, NULL, 0, 100000, 10, &sum, &got), 0);
        ck_assert_int_eq(memcmp(&want, &got, sizeof(got)), 0);
    }
}

START_TEST(with_a_grain_sums_are_the_same_to_the_bit)
{
    on_workers(_i, do_bits, NULL);
}
END_TEST

static int nested_body(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *value,
                       void *arg)
{
    for (uint64_t i = begin; i < end; i++) {
        double inner;
        int error = wsd_reduce(self, group, 0, i, 0, &sum, &inner);
        if (error)
            return error;
        *(double *)value += inner;
    }
    return 0;
}

static void do_nested(struct wsd_worker *self, void *arg)
{
    struct wsd_reduction r = {.size = sizeof(double), .identity = &zero, .body = nested_body, .combine = add};
    double got, want = 0, inner = 0;

    for (int i = 0; i < 400; i++) {
        want += inner;
        inner += 1.0 / (i + 1);
    }
    ck_assert_int_eq(wsd_reduce(self, NULL, 0, 400, 0, &r, &got), 0);
    ck_assert(got > want - 1e-6 && got < want + 1e-6);
}

START_TEST(reductions_nest)
{
    on_workers(_i, do_nested, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reduce");
    TCase *t = tcase_create("reduce");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, a_reduction_equals_the_serial_one, 0, N_SIZES);
    tcase_add_loop_test(t, the_first_error_is_returned_and_no_value_is_left_over, 0, N_SIZES);
    tcase_add_test(t, no_piece_begins_after_an_error);
    tcase_add_loop_test(t, with_a_grain_sums_are_the_same_to_the_bit, 0, N_SIZES);
    tcase_add_loop_test(t, reductions_nest, 0, N_SIZES);
    suite_add_tcase(s, t);
    return run_suite(s);
}
