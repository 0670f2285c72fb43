/* SPDX-License-Identifier: Apache-2.0
 *
 * test-cputime.c: a thread's clocks, between two real readings, are those of the kernel; also where ticks are odd. The
 * module is compiled into the test, with the machine's ticks seen through a distorting glass. */
#include <check.h>
#include <time.h>
#include <unistd.h>

#include "base/ticks.h"
#include "tests/unit/suite.h"

static uint64_t (*glass)(uint64_t ticks);
static unsigned n_readings;

static uint64_t seen_ticks(void)
{
    return glass(ticks_now());
}

static uint64_t virtual_wall, virtual_cpu; /* 0: the machine's */

static int counted_gettime(clockid_t id, struct timespec *t)
{
    n_readings += id == CLOCK_THREAD_CPUTIME_ID;
    if (!virtual_wall)
        return clock_gettime(id, t);
    uint64_t nsec = id == CLOCK_THREAD_CPUTIME_ID ? virtual_cpu : virtual_wall;
    *t = (struct timespec){.tv_sec = (time_t)(nsec / 1000000000u), .tv_nsec = (long)(nsec % 1000000000u)};
    return 0;
}

#define ticks_now     seen_ticks
#define clock_gettime counted_gettime
#include "../../../daemon/host/cputime.c"
#undef ticks_now
#undef clock_gettime

#define ROUNDS 300000

static uint64_t clock_nsec(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* One reading is between what the kernel says before and after it, but for the drift. */
static void check_one(uint64_t ret_last[static 2], uint64_t drift_nsec)
{
    uint64_t wall, cpu_before = clock_nsec(CLOCK_THREAD_CPUTIME_ID), before = clock_nsec(CLOCK_MONOTONIC),
                   cpu = cputime_nsec(&wall), after = clock_nsec(CLOCK_MONOTONIC),
                   cpu_after = clock_nsec(CLOCK_THREAD_CPUTIME_ID);

    ck_assert_uint_ge(wall + drift_nsec, before);
    ck_assert_uint_le(wall, after + drift_nsec);
    ck_assert_uint_ge(cpu + drift_nsec, cpu_before);
    ck_assert_uint_le(cpu, cpu_after + drift_nsec);
    ck_assert_uint_ge(wall, ret_last[0]);
    ck_assert_uint_ge(cpu, ret_last[1]);
    ret_last[0] = wall;
    ret_last[1] = cpu;
}

static uint64_t as_it_is(uint64_t ticks)
{
    return ticks;
}

START_TEST(readings_are_those_of_the_kernel)
{
    uint64_t last[2] = {0};

    glass = as_it_is;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 10000 == 0)
            usleep(300); /* which is no CPU time */
        check_one(last, CPUTIME_DRIFT_NSEC);
    }
}
END_TEST

START_TEST(few_of_them_are_the_kernels_own)
{
    uint64_t wall;

    glass = as_it_is;
    for (int i = 0; i < ROUNDS; i++)
        cputime_nsec(&wall);
    ck_assert_uint_gt(n_readings, 1);
    ck_assert_uint_lt(n_readings, ROUNDS / 20);
}
END_TEST

START_TEST(the_recent_one_is_kept_until_it_is_stale)
{
    uint64_t wall, cpu;

    glass = as_it_is;
    cpu = cputime_nsec(&wall);
    usleep(100);
    ck_assert_uint_eq(cputime_recent_nsec(), wall);
    ck_assert_uint_eq(cputime_at(wall), cpu);
    cputime_stale();
    ck_assert_uint_ge(cputime_recent_nsec(), wall + 100000);
}
END_TEST

/* Of what a thread does after it has slept, neither the sleep nor what the kernel spent on it is told. */
START_TEST(after_a_sleep_no_reading_is_the_kernels_own)
{
    uint64_t wall, told = 0, real = 0;
    unsigned n_real = 0, n_off = 0;

    glass = as_it_is;
    for (int i = 0; i < 1000; i++)
        cputime_nsec(&wall); /* it knows how long a tick is */
    for (int i = 0; i < 2000; i++) {
        cputime_sleeps();
        usleep(50);
        cputime_slept();
        unsigned readings = n_readings;
        uint64_t before = clock_nsec(CLOCK_MONOTONIC), begin = cputime_nsec(&wall), after = clock_nsec(CLOCK_MONOTONIC);
        uint64_t kernels = clock_nsec(CLOCK_THREAD_CPUTIME_ID), until = wall + (uint64_t)(i % 60) * 1000;

        ck_assert_uint_ge(wall + CPUTIME_DRIFT_NSEC, before);
        ck_assert_uint_le(wall, after + CPUTIME_DRIFT_NSEC);
        n_real += n_readings - readings;
        do
            cputime_nsec(&wall);
        while (wall < until);
        uint64_t end = cputime_nsec(&wall);
        kernels = clock_nsec(CLOCK_THREAD_CPUTIME_ID) - kernels;
        n_off += end - begin > kernels + 2 * CPUTIME_DRIFT_NSEC || end - begin + 2 * CPUTIME_DRIFT_NSEC < kernels;
        told += end - begin;
        real += kernels;
    }
    ck_assert_uint_lt(n_real, 1000);
    ck_assert_uint_lt(n_off, 100); /* interrupts on the way to sleep and back are long now and then */
    ck_assert_uint_lt(told, real + real / 4);
    ck_assert_uint_gt(told, real - real / 4);
}
END_TEST

static uint64_t virtual_ticks(uint64_t ticks)
{
    return 3 * virtual_wall;
}

static void compute(uint64_t usec)
{
    virtual_wall += usec * 1000;
    virtual_cpu += usec * 1000;
}

static void blocked(uint64_t usec)
{
    virtual_wall += usec * 1000;
}

/* What a job is told that computes and blocks for so long, after a sleep that costs the kernel 5 us each way. */
static uint64_t told_usec(uint64_t compute_usec, uint64_t block_usec)
{
    uint64_t wall;

    cputime_sleeps();
    compute(5);
    blocked(2000);
    compute(5);
    cputime_slept();
    uint64_t begin = cputime_nsec(&wall);
    compute(compute_usec);
    blocked(block_usec);
    return (cputime_nsec(&wall) - begin + 500) / 1000;
}

START_TEST(what_is_told_after_many_sleeps_is_as_right_as_after_one)
{
    uint64_t wall;

    glass = virtual_ticks;
    virtual_wall = virtual_cpu = 1000000000;
    for (int i = 0; i < 100; i++, compute(15))
        cputime_nsec(&wall);
    ck_assert_uint_eq(told_usec(7, 0), 7);
    ck_assert_uint_eq(told_usec(1000, 0), 1000);
    ck_assert_uint_le(told_usec(20, 10000), 20 + 10); /* the 10 cannot be attributed */
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_le(told_usec(2, 15), 17); /* shorter than the drift */
        compute(30);                             /* looks for more */
    }
    ck_assert_uint_le(told_usec(20, 10000), 20 + 10);
    for (int i = 0; i < 1000; i++)
        told_usec(2, 15);
    uint64_t told = told_usec(10000, 0);
    ck_assert_uint_ge(told + CPUTIME_DRIFT_NSEC / 1000, 10000);
    ck_assert_uint_le(told, 10000);
}
END_TEST

START_TEST(short_jobs_between_sleeps_share_a_reading)
{
    uint64_t wall, told = 0, begin;

    glass = virtual_ticks;
    virtual_wall = virtual_cpu = 1000000000;
    for (int i = 0; i < 100; i++, compute(15))
        cputime_nsec(&wall);
    cputime_sleeps();
    cputime_slept();
    begin = virtual_cpu;
    n_readings = 0;
    for (int i = 0; i < 1000; i++)
        told += told_usec(3, 0);
    ck_assert_uint_eq(told, 3000);
    ck_assert_uint_eq(virtual_cpu - begin, 13000000);
    ck_assert_uint_ge(n_readings, 1000 / 8); /* the eighth is beyond the drift */
    ck_assert_uint_le(n_readings, 1000 / 4);
    n_readings = 0;
    for (int i = 0; i < 100; i++) { /* it was woken for nothing */
        cputime_sleeps();
        blocked(2000);
        compute(30);
        cputime_slept();
    }
    ck_assert_uint_eq(n_readings, 0);
    for (int i = 0; i < 100; i++) /* as long as the drift */
        told_usec(25, 0);
    ck_assert_uint_ge(n_readings, 100);
}
END_TEST

/* Each quarter of a millisecond or two something else: faster, half as fast, ahead by a second or by little, behind. */
static uint64_t odd(uint64_t ticks)
{
    static uint64_t begin, seen, last, n;
    static const unsigned eighths[] = {8, 16, 8, 5, 8, 12, 8, 8};

    if (!last)
        begin = last = seen = ticks;
    if ((ticks - begin) >> 19 != n) {
        n = (ticks - begin) >> 19;
        if (n % 3 == 0)
            seen += n % 2 ? 2000000000 : 5000;
        else if (n % 3 == 1)
            seen -= n % 2 ? 3000000000 : 9000;
    }
    seen += (ticks - last) * eighths[n % 8] / 8;
    last = ticks;
    return seen;
}

START_TEST(odd_ticks_lead_astray_by_twice_the_drift_at_most)
{
    uint64_t last[2] = {0};

    glass = odd;
    for (int i = 0; i < ROUNDS; i++)
        check_one(last, 2 * CPUTIME_DRIFT_NSEC);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host/cputime");
    TCase *t = tcase_create("cputime");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, readings_are_those_of_the_kernel);
    tcase_add_test(t, few_of_them_are_the_kernels_own);
    tcase_add_test(t, the_recent_one_is_kept_until_it_is_stale);
    tcase_add_test(t, after_a_sleep_no_reading_is_the_kernels_own);
    tcase_add_test(t, what_is_told_after_many_sleeps_is_as_right_as_after_one);
    tcase_add_test(t, short_jobs_between_sleeps_share_a_reading);
    tcase_add_test(t, odd_ticks_lead_astray_by_twice_the_drift_at_most);
    suite_add_tcase(s, t);
    return run_suite(s);
}
