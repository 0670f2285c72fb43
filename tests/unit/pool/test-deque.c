/* SPDX-License-Identifier: Apache-2.0
 *
 * test-deque.c: the split task stack, step by step on one thread; races are the stress tests' business. */
#include "pool/deque.h"

#include "support.h"

static struct deque d;
static struct wsd_worker w;
static uint32_t published;

static void spawn_slow(struct wsd_worker *self, struct wsd_task *t, uint32_t size)
{
    bool p;

    ck_assert(deque_pushed_owner(&d, t, &p));
    published += p;
}

static struct wsd_task *sync_slow(struct wsd_worker *self, struct wsd_task *t, uint32_t size)
{
    bool p;
    bool mine = deque_popped_owner(&d, t, &p);

    published += p;
    return mine ? NULL : t;
}

static const struct wsd_task_ops ops = {.size = sizeof(ops), .spawn = spawn_slow, .sync = sync_slow};

static void setup_with(uint32_t slots, bool eager)
{
    w = (struct wsd_worker){.size = sizeof(w), .ops = &ops};
    published = 0;
    deque_revoke_available();
    ck_assert_int_eq(deque_init(&d, &w, slots, eager), 0);
}

static void setup(void)
{
    setup_with(0, false);
}

static void teardown(void)
{
    deque_deinit(&d);
}

static void nop(struct wsd_worker *self, void *arg)
{
    ++*(int *)arg;
}

static void push(uintptr_t n)
{
    for (; n; n--) {
        static int unused;
        wsd_spawn(&w, nop, &unused);
    }
}

/* The index of the stolen task, or -1. */
static long steal(void)
{
    void *context;
    bool more;
    struct wsd_task *t = deque_steal_any(&d, &context, &more);

    return t ? t - d.base : -1;
}

START_TEST(steal_from_empty_returns_none)
{
    ck_assert_int_eq(steal(), -1);
    ck_assert(!deque_has_public_any(&d));
    ck_assert(!deque_has_private_any(&d));
}
END_TEST

START_TEST(first_push_is_public_at_once)
{
    push(1);
    ck_assert_uint_eq(published, 1);
    ck_assert(deque_has_public_any(&d));
    push(3);
    ck_assert_uint_eq(published, 1);
    ck_assert(deque_has_private_any(&d));
}
END_TEST

START_TEST(thieves_take_the_oldest_first_each_once)
{
    push(100);
    for (long i = 0; i < 100; i++) {
        if (!deque_has_public_any(&d))
            ck_assert(deque_revoke_any(&d));
        ck_assert_int_eq(steal(), i);
    }
    ck_assert_int_eq(steal(), -1);
    ck_assert(!deque_revoke_any(&d));
}
END_TEST

START_TEST(taking_the_last_public_task_makes_the_next_push_publish)
{
    push(10);
    ck_assert_int_eq(steal(), 0);
    ck_assert_int_eq(steal(), -1);
    push(1);
    ck_assert_uint_eq(published, 2);
    for (long i = 1; i <= 5; i++)
        ck_assert_int_eq(steal(), i);
    ck_assert_int_eq(steal(), -1);
}
END_TEST

START_TEST(taking_the_last_public_task_makes_the_next_pop_publish)
{
    push(10);
    ck_assert_int_eq(steal(), 0);
    wsd_sync(&w);
    ck_assert_uint_eq(published, 2);
    ck_assert_int_eq(steal(), 1);
}
END_TEST

START_TEST(a_pop_of_a_stolen_task_says_so)
{
    bool p;

    push(1);
    ck_assert_int_eq(steal(), 0);
    struct wsd_task *t = wsd_task_pop_(&w);
    ck_assert(wsd_task_shared_(&w, t));
    ck_assert(!deque_popped_owner(&d, t, &p));
    ck_assert_ptr_eq(w.top, t + 1);
    /* what a helping join does above it */
    push(3);
    for (int i = 0; i < 3; i++)
        wsd_sync(&w);
    ck_assert_ptr_eq(w.top, t + 1);
    deque_joined_owner(&d, t);
    ck_assert_ptr_eq(w.top, d.base);
    ck_assert_int_eq(steal(), -1);
    push(1);
    ck_assert_int_eq(steal(), 0);
}
END_TEST

START_TEST(the_owner_takes_public_tasks_back)
{
    push(20);
    deque_has_private_any(&d);
    ck_assert_int_eq(steal(), 0);
    push(1); /* publishes half */
    for (int i = 0; i < 20; i++)
        wsd_sync(&w); /* 1 to 20 are still here */
    ck_assert_ptr_eq(w.top, d.base + 1);
    ck_assert_int_eq(steal(), -1);
}
END_TEST

START_TEST(a_full_stack_refuses_and_keeps_what_it_has)
{
    bool p;

    teardown();
    setup_with(4, _i);
    push(4);
    struct wsd_task *t = w.top;
    w.top = t + 1;
    ck_assert(!deque_pushed_owner(&d, t, &p));
    ck_assert_ptr_eq(w.top, t);
    for (long i = 0; i < 4; i++) {
        if (!deque_has_public_any(&d))
            ck_assert(deque_revoke_any(&d));
        ck_assert_int_eq(steal(), i);
    }
}
END_TEST

START_TEST(an_eager_deque_hides_nothing)
{
    teardown();
    setup_with(0, true);
    for (long i = 0; i < 50; i++) {
        push(1);
        ck_assert(!deque_has_private_any(&d));
        ck_assert_int_eq(published, i + 1);
    }
    for (long i = 0; i < 50; i++)
        ck_assert_int_eq(steal(), i);
}
END_TEST

START_TEST(contexts_are_those_of_the_time_of_the_spawn)
{
    void *context;
    bool more, p;
    int a, b;

    w.context = &a;
    push(1);
    deque_steal_any(&d, &context, &more);
    ck_assert_ptr_eq(context, &a);
    ck_assert(!more);
    struct wsd_task *t = wsd_task_pop_(&w);
    ck_assert(!deque_popped_owner(&d, t, &p));
    w.context = &b; /* helping another root meanwhile */
    push(5);
    for (int i = 0; i < 5; i++) {
        if (!deque_has_public_any(&d))
            ck_assert(deque_revoke_any(&d));
        ck_assert_ptr_nonnull(deque_steal_any(&d, &context, &more));
        ck_assert_ptr_eq(context, &b);
    }
}
END_TEST

/* Beyond the window a push says no; what a thief takes makes room for one. */
START_TEST(a_window_of_unstolen_tasks_is_kept)
{
    void *context;
    bool more, p;

    push(DEQUE_WINDOW);
    for (int i = 0; i < 3; i++) {
        struct wsd_task *t = w.top;
        __atomic_store_n(&w.top, t + 1, __ATOMIC_RELEASE);
        ck_assert(t >= w.hi);
        ck_assert(!deque_pushed_owner(&d, t, &p));
        ck_assert_ptr_eq(w.top, t);
        if (!deque_has_public_any(&d))
            ck_assert(deque_revoke_any(&d));
        ck_assert_ptr_nonnull(deque_steal_any(&d, &context, &more));
        push(1);
    }
    for (uint32_t i = 0; i < DEQUE_WINDOW; i++)
        wsd_sync(&w);
}
END_TEST

START_TEST(memory_goes_back_when_trimmed)
{
    d.inside_spawns = DEQUE_CHUNK * 5 / DEQUE_NEST; /* as in so many children that run inside their spawns */
    push(DEQUE_CHUNK * 5);
    for (uint32_t i = 0; i < DEQUE_CHUNK * 5; i++)
        wsd_sync(&w);
    ck_assert(d.touched > d.base + DEQUE_CHUNK);
    ck_assert_ptr_nonnull((void *)(d.base + DEQUE_CHUNK * 2)->run);
    deque_trim_owner(&d);
    ck_assert_ptr_null((void *)(d.base + DEQUE_CHUNK * 2)->run);
    push(DEQUE_CHUNK * 5);
    for (uint32_t i = 0; i < DEQUE_CHUNK * 5; i++)
        wsd_sync(&w);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("deque");
    TCase *t = tcase_create("deque");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, steal_from_empty_returns_none);
    tcase_add_test(t, first_push_is_public_at_once);
    tcase_add_test(t, thieves_take_the_oldest_first_each_once);
    tcase_add_test(t, taking_the_last_public_task_makes_the_next_push_publish);
    tcase_add_test(t, taking_the_last_public_task_makes_the_next_pop_publish);
    tcase_add_test(t, a_pop_of_a_stolen_task_says_so);
    tcase_add_test(t, the_owner_takes_public_tasks_back);
    tcase_add_loop_test(t, a_full_stack_refuses_and_keeps_what_it_has, 0, 2);
    tcase_add_test(t, an_eager_deque_hides_nothing);
    tcase_add_test(t, contexts_are_those_of_the_time_of_the_spawn);
    tcase_add_test(t, a_window_of_unstolen_tasks_is_kept);
    tcase_add_test(t, memory_goes_back_when_trimmed);
    suite_add_tcase(s, t);
    return run_suite(s);
}
