/* SPDX-License-Identifier: Apache-2.0
 *
 * test-deque.c: the split task stack, step by step on one thread; races are the stress tests' business. */
#include "pool/deque.h"

#include "support.h"

static struct deque d;
static struct wsd_worker w;
static uint32_t published;

/* Of wsd_spawn(). */
#define SLOT  (sizeof(struct wsd_task) + sizeof(struct wsd_plain_))
#define AT(i) wsd_task_at_(d.base, (ptrdiff_t)((i)*SLOT))

static void spawn_slow(struct wsd_worker *self, struct wsd_task *t)
{
    bool p;

    ck_assert(deque_pushed_owner(&d, t, &p));
    published += p;
}

/* A pop, with its bound: true where the task is the owner's. */
static bool pop(struct wsd_task *t, bool *ret_published)
{
    return deque_popped_owner(&d, t, wsd_task_at_(t, SLOT), ret_published);
}

static struct wsd_task *sync_slow(struct wsd_worker *self, struct wsd_task *t, const struct wsd_task_type *type)
{
    bool p;
    bool mine = pop(t, &p);

    published += p;
    return mine ? NULL : t;
}

static const struct wsd_task_ops ops = {.size = sizeof(ops), .spawn = spawn_slow, .sync = sync_slow};

static void setup_with(size_t slots, bool eager)
{
    w = (struct wsd_worker){.size = sizeof(w), .ops = &ops};
    published = 0;
    deque_revoke_available();
    ck_assert_int_eq(deque_init(&d, &w, slots * SLOT, eager), 0);
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
    bool more;

    struct deque_entry *e = deque_steal_any(&d, &more);
    return e ? ((char *)e->task - (char *)d.base) / (long)SLOT : -1;
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
    struct wsd_task *t = AT(0);
    wsd_task_top_(&w, t);
    ck_assert(wsd_task_shared_(&w, t));
    ck_assert(!pop(t, &p));
    ck_assert_ptr_eq(w.top, AT(1));
    /* what a helping join does above it */
    push(3);
    for (int i = 0; i < 3; i++)
        wsd_sync(&w);
    ck_assert_ptr_eq(w.top, AT(1));
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
    ck_assert_ptr_eq(w.top, AT(1));
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
    w.top = AT(5);
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
    struct deque_entry *e;
    bool more, p;
    int a, b;

    w.context = &a;
    push(1);
    e = deque_steal_any(&d, &more);
    ck_assert_ptr_nonnull(e);
    ck_assert_ptr_eq(e->context, &a);
    ck_assert(!more);
    wsd_task_top_(&w, AT(0));
    ck_assert(!pop(AT(0), &p));
    w.context = &b; /* helping another root meanwhile */
    push(5);
    for (int i = 0; i < 5; i++) {
        if (!deque_has_public_any(&d))
            ck_assert(deque_revoke_any(&d));
        e = deque_steal_any(&d, &more);
        ck_assert_ptr_nonnull(e);
        ck_assert_ptr_eq(e->context, &b);
    }
}
END_TEST

/* Beyond the window a push says no; what a thief takes makes room for one. */
START_TEST(a_window_of_unstolen_tasks_is_kept)
{
    const uint32_t window = (uint32_t)((DEQUE_WINDOW + SLOT - 1) / SLOT);
    struct deque_entry *e;
    bool more, p;

    push(window);
    for (int i = 0; i < 3; i++) {
        struct wsd_task *t = w.top;
        wsd_task_top_(&w, AT(window + (uint32_t)i + 1));
        ck_assert(t >= w.hi);
        ck_assert(!deque_pushed_owner(&d, t, &p));
        ck_assert_ptr_eq(w.top, t);
        if (!deque_has_public_any(&d))
            ck_assert(deque_revoke_any(&d));
        e = deque_steal_any(&d, &more);
        ck_assert_ptr_nonnull(e);
        push(1);
    }
    for (uint32_t i = 0; i < window; i++)
        wsd_sync(&w);
}
END_TEST

START_TEST(memory_goes_back_when_trimmed)
{
    const uint32_t n = (uint32_t)(DEQUE_CHUNK * 5 / SLOT);

    w.inside = (uint32_t)(DEQUE_CHUNK * 5 / DEQUE_NEST); /* as in so many children that run inside their spawns */
    push(n);
    for (uint32_t i = 0; i < n; i++)
        wsd_sync(&w);
    ck_assert(d.touched > wsd_task_at_(d.base, (ptrdiff_t)DEQUE_CHUNK));
    ck_assert_uint_ne(AT(n / 2)->word, 0);
    deque_trim_owner(&d);
    ck_assert_uint_eq(AT(n / 2)->word, 0);
    push(n);
    for (uint32_t i = 0; i < n; i++)
        wsd_sync(&w);
}
END_TEST

/* Slots of all sizes, side by side. */
WSD_TASK_0(char, none)
{
    return 'n';
}

WSD_TASK_6(uint64_t, six, uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d6, uint64_t, e, uint64_t, f)
{
    return a + b + c + d6 + e + f;
}

START_TEST(slots_are_as_large_as_their_task)
{
    struct wsd_worker *self = &w;
    struct deque_entry *e[3];
    bool more;

    WSD_SPAWN(none);
    WSD_SPAWN(six, 1, 2, 3, 4, 5, 6);
    push(1);
    ck_assert_int_eq((char *)w.top - (char *)d.base, 16 + 56 + 24);
    for (int i = 0; i < 3; i++) {
        if (!deque_has_public_any(&d))
            ck_assert(deque_revoke_any(&d));
        e[i] = deque_steal_any(&d, &more);
        ck_assert_ptr_nonnull(e[i]);
    }
    ck_assert_ptr_eq(e[0]->task, d.base);
    ck_assert_int_eq((char *)e[1]->task - (char *)d.base, 16);
    ck_assert_int_eq((char *)e[2]->task - (char *)d.base, 16 + 56);
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
    tcase_add_test(t, slots_are_as_large_as_their_task);
    suite_add_tcase(s, t);
    return run_suite(s);
}
