/* SPDX-License-Identifier: Apache-2.0
 *
 * test-task.c: what wsd/task.h promises to tasks, on pools of every size. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* test-task-cxx.cpp, where there is a C++ compiler */
long cxx_run(struct wsd_worker *self, int n);

static long fib_serial(int n)
{
    return n < 2 ? n : fib_serial(n - 1) + fib_serial(n - 2);
}

static void do_fib(struct wsd_worker *self, void *arg)
{
    long *n = arg;

    *n = WSD_CALL(fib, (int)*n);
}

static void check_fib(struct pool *pool)
{
    for (int n = 0; n <= (SLOW ? 22 : 30); n += n < 20 ? 5 : 1) {
        long v = n;
        run_on(pool, do_fib, &v);
        ck_assert_int_eq(v, fib_serial(n));
    }
}

static const uint32_t sizes[] = {1, 2, 4, 16};

/* A worker without a pool: what the inline code asks, and when. It is built into plugins, so later engines must answer
 * it, too. */
static unsigned asked;

static void ask_spawn(struct wsd_worker *self, struct wsd_task *task)
{
    (void)self;
    (void)task;
    asked++;
}

static struct wsd_task *ask_sync(struct wsd_worker *self, struct wsd_task *task, const struct wsd_task_type *type)
{
    (void)self;
    (void)task;
    (void)type;
    asked++;
    return NULL;
}

static void count_plain(struct wsd_worker *self, void *arg)
{
    (void)self;
    ++*(unsigned *)arg;
}

WSD_VOID_TASK_1(count_void, unsigned *, runs)
{
    ++*runs;
}

START_TEST(the_pool_is_asked_at_the_bounds_and_not_beside_them)
{
    static const struct wsd_task_ops ops = {.size = sizeof(ops), .spawn = ask_spawn, .sync = ask_sync};
    uintptr_t slots[64] = {0};
    struct wsd_worker w = {.size = sizeof(w), .ops = &ops}, *self = &w;
    unsigned runs = 0;

    for (int form = 0; form < 3; form++) {
        for (int beside = -1; beside <= 1; beside++) {
            struct wsd_task *at = (struct wsd_task *)(void *)&slots[16];

            w.top = at;
            w.hi = (struct wsd_task *)(void *)&slots[16 - beside];
            w.lo = w.hi;
            asked = 0;
            if (form == 0)
                WSD_SPAWN(fib, 1);
            else if (form == 1)
                WSD_SPAWN(count_void, &runs);
            else
                wsd_spawn(self, count_plain, &runs);
            ck_assert_uint_eq(asked, beside >= 0);
            ck_assert(w.top > at);
            asked = 0;
            if (form == 0)
                ck_assert_int_eq(WSD_SYNC(fib), 1);
            else if (form == 1)
                WSD_SYNC(count_void);
            else
                wsd_sync(self);
            ck_assert_uint_eq(asked, beside < 0);
            ck_assert_ptr_eq(w.top, at);
        }
    }
    ck_assert_uint_eq(runs, 6);
}
END_TEST

START_TEST(fib_is_right_on_any_number_of_workers)
{
    struct pool *pool = new_pool(sizes[_i]);

    check_fib(pool);
    pool_free(pool);
}
END_TEST

START_TEST(fib_is_right_pinned_to_one_cpu)
{
    pin_to_one_cpu();
    struct pool *pool = new_pool(sizes[_i]);
    check_fib(pool);
    pool_free(pool);
}
END_TEST

START_TEST(fib_is_right_without_membarrier)
{
    struct pool_options o = {.workers = sizes[_i], .eager = true};
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    check_fib(pool);
    pool_free(pool);
}
END_TEST

START_TEST(fib_is_right_when_the_task_stack_is_tiny)
{
    static const uint32_t slots[] = {1, 2, 3, 7, 16};

    for (size_t i = 0; i < 5; i++) {
        struct pool_options o = {.workers = sizes[_i], .task_bytes = slots[i] * 16};
        struct pool *pool;
        ck_assert_int_eq(pool_new(&pool, &o), 0);
        check_fib(pool);
        pool_free(pool);
    }
}
END_TEST

/* --- flat --- */

WSD_TASK_1(uint64_t, square, uint64_t, n)
{
    return n * n;
}

static void do_flat(struct wsd_worker *self, void *arg)
{
    uint64_t n = *(uint64_t *)arg, wrong = 0;

    for (uint64_t i = 0; i < n; i++)
        WSD_SPAWN(square, i);
    for (uint64_t i = n; i-- > 0;)
        wrong += WSD_SYNC(square) != i * i; /* ck_assert is too slow for ten million */
    ck_assert_uint_eq(wrong, 0);
}

/* More than the task stack holds, so that the tail overflows. */
START_TEST(ten_million_flat_spawns_keep_their_results)
{
    struct pool *pool = new_pool(_i ? 2 : 1);
    uint64_t n = SLOW ? 200000 : 10000000;

    run_on(pool, do_flat, &n);
    pool_free(pool);
}
END_TEST

START_TEST(overflowing_spawns_run_at_once_and_sync)
{
    struct pool_options o = {.workers = _i ? 4 : 1, .task_bytes = 2400};
    struct pool_counters c, sum = {0};
    struct pool *pool;
    uint64_t n = 20000;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    run_on(pool, do_flat, &n);
    for (uint32_t i = 0; i < o.workers; i++) {
        pool_worker_counters(pool, i, &c);
        sum.overflows += c.overflows;
    }
    ck_assert_uint_gt(sum.overflows, 0);
    pool_free(pool);
}
END_TEST

/* Children with and without result, of all forms, on one full stack: each sync gets its own. */
WSD_VOID_TASK_2(tick, _Atomic uint64_t *, count, int, deeper)
{
    for (int i = 0; i < deeper; i++)
        WSD_SPAWN(tick, count, deeper - 1);
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
    for (int i = 0; i < deeper; i++)
        WSD_SYNC(tick);
}

static void tick_plain(struct wsd_worker *self, void *arg)
{
    atomic_fetch_add_explicit((_Atomic uint64_t *)arg, 1, memory_order_relaxed);
}

static uint64_t triple(struct wsd_worker *self, uint64_t n)
{
    if (n % 5 == 0) {
        self->ops->spawn_word(self, triple, n + 1);
        return self->ops->sync_word(self) - 3;
    }
    return 3 * n;
}

static void do_mixed(struct wsd_worker *self, void *arg)
{
    uint64_t n = *(uint64_t *)arg, wrong = 0, ticks = 0;
    _Atomic uint64_t count = 0;

    for (int run = 1; run < 40; run += 19) { /* how many of a kind one after the other */
        for (uint64_t i = 0; i < n; i++) {
            switch (i / (uint64_t)run % 4) {
            case 0:
                WSD_SPAWN(square, i);
                break;
            case 1:
                WSD_SPAWN(tick, &count, (int)(i % 4));
                break;
            case 2:
                wsd_spawn(self, tick_plain, &count);
                break;
            default:
                self->ops->spawn_word(self, triple, i);
                break;
            }
        }
        for (uint64_t i = n; i-- > 0;) {
            switch (i / (uint64_t)run % 4) {
            case 0:
                wrong += WSD_SYNC(square) != i * i;
                break;
            case 1:
                WSD_SYNC(tick);
                ticks += (uint64_t[]){1, 2, 5, 16}[i % 4];
                break;
            case 2:
                wsd_sync(self);
                ticks++;
                break;
            default:
                wrong += self->ops->sync_word(self) != 3 * i;
                break;
            }
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(count, ticks);
}

START_TEST(a_full_stack_keeps_children_of_all_forms_apart)
{
    static const size_t bytes[] = {16, 64, 200, 2400, 0};

    for (size_t i = 0; i < 5; i++) {
        struct pool_options o = {.workers = sizes[_i], .task_bytes = bytes[i]};
        struct pool *pool;
        uint64_t n = bytes[i] ? 5000 : 100000;

        ck_assert_int_eq(pool_new(&pool, &o), 0);
        run_on(pool, do_mixed, &n);
        pool_free(pool);
    }
}
END_TEST

/* --- the stack of joins --- */

/* A tree of frames that are large beside the stack: leaves of all sizes, so that joins wait and help. */
WSD_TASK_DECL_2(uint64_t, bulky, int, uint32_t);

/* The least that threads may have is more elsewhere than on x86-64. */
#if SANITIZED
#define BULKY_STACK (512u * 1024)
#elif defined(__x86_64__)
#define BULKY_STACK (48u * 1024)
#else
#define BULKY_STACK (192u * 1024)
#endif
#define BULKY_FRAME (SANITIZED ? 2048u : BULKY_STACK / 24)

/* Not inlined: one frame a level. */
__attribute__((noinline)) static uint64_t bulky_frame(struct wsd_worker *self, int depth, uint32_t seed)
{
    volatile unsigned char frame[BULKY_FRAME];
    uint64_t n = 0;

    frame[0] = (unsigned char)seed;
    if (depth == 0) {
        for (uint32_t i = 0; i < seed % BULKY_FRAME; i++)
            frame[i] = (unsigned char)i;
        return 1;
    }
    for (uint32_t k = 0; k < 3; k++)
        WSD_SPAWN(bulky, depth - 1 - (int)(k == 1 && depth > 1), seed * 1664525u + k * 1013904223u);
    for (int k = 0; k < 3; k++)
        n += WSD_SYNC(bulky);
    return n + (frame[0] != (unsigned char)seed);
}

WSD_TASK_IMPL_2(uint64_t, bulky, int, depth, uint32_t, seed)
{
    return bulky_frame(self, depth, seed);
}

static uint64_t bulky_serial(int depth)
{
    return depth == 0 ? 1 : 2 * bulky_serial(depth - 1) + bulky_serial(depth > 1 ? depth - 2 : 0);
}

static void do_bulky(struct wsd_worker *self, void *arg)
{
    ck_assert_uint_eq(WSD_CALL(bulky, 9, 1), bulky_serial(9));
}

/* S1 is ten frames of a 24th of the stack and a little; helping may add half a stack. Without that bound the frames of
 * unrelated tasks pile up here until the stack is gone. */
START_TEST(helping_joins_take_at_most_half_of_the_stack)
{
    struct pool_options o = {.workers = sizes[_i] * 2, .stack_size = BULKY_STACK};
    static struct root roots[8];
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    for (int round = 0; round < (SLOW ? 1 : 40); round++) {
        for (int i = 0; i < 8; i++)
            root_submit(pool, &roots[i], do_bulky, NULL);
        for (int i = 0; i < 8; i++)
            root_wait(&roots[i]);
    }
    pool_free(pool);
}
END_TEST

/* --- deep --- */

WSD_TASK_1(int, deep, int, n)
{
    if (n == 0)
        return 0;
    WSD_SPAWN(deep, n - 1);
    return WSD_SYNC(deep) + 1;
}

static void do_deep(struct wsd_worker *self, void *arg)
{
    int *n = arg;

    *n = WSD_CALL(deep, *n);
}

START_TEST(recursion_of_100000_works)
{
    struct pool_options o = {.workers = sizes[_i], .stack_size = (size_t)count_for(256, 64) << 20};
    struct pool *pool;
    int depth = SANITIZED ? 20000 : 100000, n = depth; /* ThreadSanitizer's own stack ends at 65,536 calls */

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    run_on(pool, do_deep, &n);
    ck_assert_int_eq(n, depth);
    pool_free(pool);
}
END_TEST

/* --- fork --- */

static void do_fork(struct wsd_worker *self, void *arg)
{
    int what = *(int *)arg, status;
    pid_t child = fork();

    if (child == 0) { /* nothing of check: another thread may have had its lock at the fork */
        alarm(20);
        close(STDERR_FILENO);
        if (what == 1)
            WSD_SPAWN(deep, 1);
        if (what == 2)
            wsd_for(self, 0, 10, 1, NULL, NULL);
        if (what == 3 && pool_new(&(struct pool *){NULL}, &(struct pool_options){.workers = 1}) == -ECHILD)
            WSD_SPAWN(deep, 1); /* it has none */
        _exit(7);               /* what == 0: a child that calls nothing, as before an exec, is fine */
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (what == 0)
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    else
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

START_TEST(a_forked_child_stops_at_its_first_call)
{
    struct pool *pool = new_pool(2);

    run_on(pool, do_fork, &_i);
    pool_free(pool);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* its allocator has locks, which the child finds held */
START_TEST(a_forked_child_may_make_a_pool)
{
    struct pool *pool = new_pool(2);
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct root r = {.node = {.run = root_run}, .fn = do_deep};
        int n = 100;

        alarm(20);
        r.arg = &n;
        if (pool_new(&pool, &(struct pool_options){.workers = 2}) < 0 || pool_run(pool, &r.node) < 0)
            _exit(1);
        pool_free(pool);
        _exit(n == 100 ? 7 : 2);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    pool_free(pool);
}
END_TEST
#endif

/* --- every kind of task --- */

struct pair {
    double x, y;
};

static _Atomic int touched;

WSD_TASK_0(int, t0)
{
    return 7;
}
WSD_TASK_2(struct pair, t2, double, a, double, b)
{
    return (struct pair){a, b};
}
WSD_TASK_3(int, t3, char, a, short, b, int, c)
{
    return a + b + c;
}
WSD_TASK_4(const char *, t4, const char *, a, int, b, int, c, int, d)
{
    return a + b + c + d;
}
WSD_TASK_5(float, t5, float, a, float, b, float, c, float, d, float, e)
{
    return a + b + c + d + e;
}
WSD_TASK_6(uint64_t, t6, uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d, uint64_t, e, uint64_t, f)
{
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}
WSD_VOID_TASK_0(v0)
{
    touched++;
}
WSD_VOID_TASK_1(v1, int *, p)
{
    *p = 1;
}
WSD_VOID_TASK_2(v2, int *, p, int, v)
{
    *p = v;
}
WSD_VOID_TASK_3(v3, int *, p, int, v, int, w)
{
    *p = v * w;
}
WSD_VOID_TASK_4(v4, int *, p, int, v, int, w, int, x)
{
    *p = v * w * x;
}
WSD_VOID_TASK_5(v5, int *, p, int, v, int, w, int, x, int, y)
{
    *p = v * w * x * y;
}
WSD_VOID_TASK_6(v6, int *, p, int, v, int, w, int, x, int, y, int, z)
{
    *p = v * w * x * y * z;
}
WSD_TASK_DECL_1(bool, is_odd, unsigned);
WSD_TASK_1(bool, is_even, unsigned, n)
{
    if (n == 0)
        return true;
    WSD_SPAWN(is_odd, n - 1);
    return WSD_SYNC(is_odd);
}
WSD_TASK_IMPL_1(bool, is_odd, unsigned, n)
{
    if (n == 0)
        return false;
    WSD_SPAWN(is_even, n - 1);
    return WSD_SYNC(is_even);
}
WSD_VOID_TASK_DECL_0(later);
WSD_VOID_TASK_0(sooner)
{
    WSD_SPAWN(later);
    WSD_SYNC(later);
}
WSD_VOID_TASK_IMPL_0(later)
{
    touched++;
}

static void plain(struct wsd_worker *self, void *arg)
{
    *(int *)arg += 1;
}

static void do_kinds(struct wsd_worker *self, void *arg)
{
    static const char text[] = "0123456789";
    int p[7] = {0}, q = 0;

    WSD_SPAWN(t0);
    WSD_SPAWN(t2, 1.5, 2.5);
    WSD_SPAWN(t3, 1, 2, 3);
    WSD_SPAWN(t4, text, 1, 2, 3);
    WSD_SPAWN(t5, 1, 2, 3, 4, 5);
    WSD_SPAWN(t6, 1, 2, 3, 4, 5, 6);
    WSD_SPAWN(v0);
    WSD_SPAWN(v1, &p[1]);
    WSD_SPAWN(v2, &p[2], 2);
    WSD_SPAWN(v3, &p[3], 2, 3);
    WSD_SPAWN(v4, &p[4], 2, 3, 4);
    WSD_SPAWN(v5, &p[5], 2, 3, 4, 5);
    WSD_SPAWN(v6, &p[6], 2, 3, 4, 5, 6);
    WSD_SPAWN(is_even, 10);
    WSD_SPAWN(sooner);
    wsd_spawn(self, plain, &q);

    wsd_sync(self);
    ck_assert_int_eq(q, 1);
    WSD_SYNC(sooner);
    ck_assert(WSD_SYNC(is_even));
    WSD_SYNC(v6);
    WSD_SYNC(v5);
    WSD_SYNC(v4);
    WSD_SYNC(v3);
    WSD_SYNC(v2);
    WSD_SYNC(v1);
    WSD_SYNC(v0);
    for (int i = 1, f = 1; i <= 6; f *= ++i)
        ck_assert_int_eq(p[i], f);
    ck_assert_uint_eq(WSD_SYNC(t6), 654321);
    ck_assert(WSD_SYNC(t5) == 15.0F);
    ck_assert_ptr_eq(WSD_SYNC(t4), text + 6);
    ck_assert_int_eq(WSD_SYNC(t3), 6);
    struct pair r = WSD_SYNC(t2);
    ck_assert(r.x == 1.5 && r.y == 2.5);
    ck_assert_int_eq(WSD_SYNC(t0), 7);
    ck_assert_int_eq(WSD_CALL(t0), 7);
    ck_assert(!WSD_CALL(is_odd, 4));
}

START_TEST(tasks_of_every_kind_carry_arguments_and_results)
{
    static const uint32_t slots[] = {0, 1, 5};

    for (int s = 0; s < 3; s++) {
        struct pool_options o = {.workers = sizes[_i], .task_bytes = slots[s] * 16};
        struct pool *pool;
        ck_assert_int_eq(pool_new(&pool, &o), 0);
        touched = 0;
        for (int i = 0; i < 500; i++)
            run_on(pool, do_kinds, NULL);
        ck_assert_int_eq(touched, 1000);
        pool_free(pool);
    }
}
END_TEST

/* --- wsd_for --- */

#define FOR_MAX 5000
static struct {
    uint64_t grain, longest;
    uint64_t begin, end;
    _Atomic unsigned char hits[FOR_MAX];
} range;

static void hit(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    ck_assert_uint_lt(begin, end);
    if (range.grain)
        ck_assert_uint_le(end - begin, range.grain);
    for (uint64_t i = begin; i < end; i++)
        range.hits[i - range.begin]++;
}

static void do_range(struct wsd_worker *self, void *arg)
{
    wsd_for(self, range.begin, range.end, range.grain, hit, NULL);
}

START_TEST(for_visits_each_index_once)
{
    static const uint64_t grains[] = {0, 1, 2, 7, 100, FOR_MAX, UINT64_MAX};
    static const uint64_t counts[] = {0, 1, 2, 3, 63, 64, 65, 1000, FOR_MAX};
    struct pool *pool = new_pool(sizes[_i]);

    for (size_t g = 0; g < 7; g++)
        for (size_t c = 0; c < 9; c++) {
            memset((void *)range.hits, 0, sizeof(range.hits));
            range.grain = grains[g];
            range.begin = c % 2 ? 0 : UINT64_MAX - FOR_MAX;
            range.end = range.begin + counts[c];
            run_on(pool, do_range, NULL);
            for (uint64_t i = 0; i < FOR_MAX; i++)
                ck_assert_uint_eq(range.hits[i], i < counts[c]);
        }
    range.begin = 10;
    range.end = 5;
    run_on(pool, do_range, NULL);
    pool_free(pool);
}
END_TEST

static void do_broken(struct wsd_worker *self, void *arg)
{
    WSD_SPAWN(v0);
}

START_TEST(a_root_that_joins_less_than_it_spawned_is_stopped)
{
    struct pool *pool = new_pool(1);

    run_on(pool, do_broken, NULL);
    pool_free(pool); /* the worker looks after the root has told us that it is done */
}
END_TEST

static void do_broken_sync(struct wsd_worker *self, void *arg)
{
    wsd_sync(self);
}

START_TEST(a_sync_without_a_spawn_is_stopped)
{
    struct pool *pool = new_pool(1);

    run_on(pool, do_broken_sync, NULL);
    pool_free(pool); /* the worker looks after the root has told us that it is done */
}
END_TEST

#ifdef HAVE_CXX
static void do_cxx(struct wsd_worker *self, void *arg)
{
    *(long *)arg = cxx_run(self, 20);
}

START_TEST(tasks_in_cxx_work)
{
    struct pool *pool = new_pool(2);
    long v = 0;

    run_on(pool, do_cxx, &v);
    ck_assert_int_eq(v, fib_serial(20) + 3);
    pool_free(pool);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("task");
    TCase *t = tcase_create("task");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_pool_is_asked_at_the_bounds_and_not_beside_them);
    tcase_add_loop_test(t, fib_is_right_on_any_number_of_workers, 0, 4);
    tcase_add_loop_test(t, fib_is_right_pinned_to_one_cpu, 0, 4);
    tcase_add_loop_test(t, fib_is_right_without_membarrier, 0, 4);
    tcase_add_loop_test(t, fib_is_right_when_the_task_stack_is_tiny, 0, 4);
    tcase_add_loop_test(t, ten_million_flat_spawns_keep_their_results, 0, 2);
    tcase_add_loop_test(t, a_forked_child_stops_at_its_first_call, 0, 4);
#ifndef __SANITIZE_ADDRESS__
    if (!EMULATED) /* qemu-user aborts in the child of a process with threads that makes one */
        tcase_add_test(t, a_forked_child_may_make_a_pool);
#endif
    tcase_add_loop_test(t, overflowing_spawns_run_at_once_and_sync, 0, 2);
    tcase_add_loop_test(t, a_full_stack_keeps_children_of_all_forms_apart, 0, 4);
    tcase_add_loop_test(t, helping_joins_take_at_most_half_of_the_stack, 0, 4);
    tcase_add_loop_test(t, recursion_of_100000_works, 0, 4);
    tcase_add_loop_test(t, tasks_of_every_kind_carry_arguments_and_results, 0, 4);
    tcase_add_loop_test(t, for_visits_each_index_once, 0, 4);
    tcase_add_test_raise_signal(t, a_root_that_joins_less_than_it_spawned_is_stopped, SIGABRT);
    tcase_add_test_raise_signal(t, a_sync_without_a_spawn_is_stopped, SIGABRT);
#ifdef HAVE_CXX
    tcase_add_test(t, tasks_in_cxx_work);
#endif
    suite_add_tcase(s, t);
    return run_suite(s);
}
