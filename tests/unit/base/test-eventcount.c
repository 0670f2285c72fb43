/* SPDX-License-Identifier: Apache-2.0
 *
 * test-eventcount.c: the eventcount. */
#include "base/eventcount.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

START_TEST(notify_without_waiters_makes_no_system_call)
{
    struct eventcount e;

    eventcount_init(&e);
    ck_assert(!eventcount_notify(&e, 1, false));
    uint32_t epoch = eventcount_prepare(&e);
    eventcount_cancel(&e);
    ck_assert(!eventcount_notify(&e, 1, false));
    ck_assert_uint_eq(epoch, e.epoch);
}
END_TEST

START_TEST(a_notify_between_prepare_and_wait_is_not_lost)
{
    struct eventcount e;

    eventcount_init(&e);
    uint32_t epoch = eventcount_prepare(&e);
    ck_assert(eventcount_notify(&e, 1, false));
    ck_assert(eventcount_wait(&e, epoch, UINT64_MAX, false));
    ck_assert_uint_eq(e.waiters, 0);
}
END_TEST

START_TEST(wait_gives_up_in_time)
{
    struct eventcount e;
    uint64_t start = clock_monotonic_usec();

    eventcount_init(&e);
    uint32_t epoch = eventcount_prepare(&e);
    while (eventcount_wait(&e, epoch, 10000, false))
        epoch = eventcount_prepare(&e);
    ck_assert_uint_ge(clock_monotonic_usec() - start, 10000);
    ck_assert_uint_eq(e.waiters, 0);
}
END_TEST

/* Two sides hand a number to and fro; a lost wake-up hangs until check's timeout. */
struct table {
    struct eventcount e;
    _Atomic uint32_t turn;
    bool shared;
};

static void await(struct table *t, uint32_t turn)
{
    while (atomic_load_explicit(&t->turn, memory_order_acquire) != turn) {
        uint32_t epoch = eventcount_prepare(&t->e);
        if (atomic_load_explicit(&t->turn, memory_order_acquire) == turn)
            eventcount_cancel(&t->e);
        else
            eventcount_wait(&t->e, epoch, UINT64_MAX, t->shared);
    }
}

static void play(struct table *t, uint32_t first, uint32_t rounds)
{
    for (uint32_t i = first; i < rounds; i += 2) {
        await(t, i);
        atomic_store_explicit(&t->turn, i + 1, memory_order_release);
        eventcount_notify(&t->e, 1, t->shared);
    }
}

#define ROUNDS 20000u

static void *second_player(void *arg)
{
    play(arg, 1, ROUNDS);
    return NULL;
}

START_TEST(no_wake_up_is_lost_between_threads)
{
    struct table t = {.turn = 0};
    pthread_t thread;

    eventcount_init(&t.e);
    pthread_create(&thread, NULL, second_player, &t);
    play(&t, 0, ROUNDS);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(t.turn, ROUNDS);
    ck_assert_uint_eq(t.e.waiters, 0);
}
END_TEST

START_TEST(no_wake_up_is_lost_between_processes)
{
    struct table *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    ck_assert_ptr_ne(t, MAP_FAILED);
    eventcount_init(&t->e);
    t->shared = true;
    pid_t pid = fork();
    if (pid == 0) {
        play(t, 1, ROUNDS);
        _exit(0);
    }
    play(t, 0, ROUNDS);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(t->turn, ROUNDS);
    munmap(t, sizeof(*t));
}
END_TEST

/* Notifying n wakes at most n sleepers, and all with a large n. */
static struct {
    struct eventcount e;
    _Atomic uint32_t announced, left;
} many;

static void *sleeper(void *arg)
{
    uint32_t epoch = eventcount_prepare(&many.e);

    atomic_fetch_add(&many.announced, 1);
    eventcount_wait(&many.e, epoch, UINT64_MAX, false);
    atomic_fetch_add(&many.left, 1);
    return NULL;
}

START_TEST(notify_all_wakes_all)
{
    pthread_t thread[8];

    eventcount_init(&many.e);
    for (int i = 0; i < 8; i++)
        pthread_create(&thread[i], NULL, sleeper, NULL);
    while (atomic_load(&many.announced) < 8)
        sched_yield();
    ck_assert(eventcount_notify(&many.e, UINT32_MAX, false));
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    ck_assert_uint_eq(many.left, 8);
    ck_assert_uint_eq(many.e.waiters, 0);
}
END_TEST

/* One sleeper for two events; each event has a notifier of its own. */
static struct {
    struct eventcount e[2];
    _Atomic uint32_t work[2]; /* published and not taken */
    uint32_t taken;
} both;

static void *takes_both(void *arg)
{
    while (both.taken < 2 * ROUNDS) {
        struct eventcount_set set;

        eventcount_set_init(&set);
        eventcount_set_add(&set, &both.e[0], NULL);
        eventcount_set_add(&set, &both.e[1], NULL);
        uint32_t found = atomic_exchange(&both.work[0], 0) + atomic_exchange(&both.work[1], 0);
        if (found)
            eventcount_set_cancel(&set);
        else
            eventcount_set_wait(&set, false);
        both.taken += found;
    }
    return NULL;
}

static void *publishes(void *arg)
{
    int which = arg != NULL;

    for (uint32_t i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&both.work[which], 1);
        eventcount_notify(&both.e[which], 1, false);
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

START_TEST(no_wake_up_is_lost_on_several_at_once)
{
    pthread_t thread[3];

    if (!eventcount_set_available())
        return;
    pthread_create(&thread[0], NULL, takes_both, NULL);
    pthread_create(&thread[1], NULL, publishes, NULL);
    pthread_create(&thread[2], NULL, publishes, &both);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    ck_assert_uint_eq(both.taken, 2 * ROUNDS);
    ck_assert_uint_eq(both.e[0].waiters, 0);
    ck_assert_uint_eq(both.e[1].waiters, 0);
}
END_TEST

START_TEST(a_set_knows_which_one_rang)
{
    struct eventcount e[2];
    struct eventcount_set set;

    eventcount_init(&e[0]);
    eventcount_init(&e[1]);
    eventcount_set_init(&set);
    eventcount_set_add(&set, &e[0], NULL);
    eventcount_set_add(&set, &e[1], &set);
    ck_assert(eventcount_notify(&e[1], 1, false));
    ck_assert(!eventcount_set_rang(&set, 0) && eventcount_set_rang(&set, 1));
    ck_assert_ptr_eq(set.owners[1], &set);
    if (eventcount_set_available())
        eventcount_set_wait(&set, false); /* returns at once */
    else
        eventcount_set_cancel(&set);
    ck_assert_uint_eq(e[0].waiters + e[1].waiters, 0);
}
END_TEST

/* --- a watch --- */

static void watch(struct eventcount_set *set, struct eventcount *e)
{
    eventcount_set_init_watch(set);
    eventcount_set_add(set, e, NULL);
}

static bool is_watched(const struct eventcount *e)
{
    return e->waiters & EVENTCOUNT_WATCHED;
}

START_TEST(a_watch_is_woken_where_there_is_no_waiter)
{
    struct eventcount_set set;
    struct eventcount e;

    eventcount_init(&e);
    watch(&set, &e);
    uint32_t epoch = eventcount_prepare(&e);
    ck_assert(eventcount_notify(&e, 1, false));
    ck_assert(is_watched(&e)); /* that was the waiter's */
    ck_assert(eventcount_wait(&e, epoch, UINT64_MAX, false));
    ck_assert(!eventcount_notify(&e, 1, false)); /* there was no waiter */
    ck_assert(!is_watched(&e));
    ck_assert(!eventcount_set_rang(&set, 0));
    eventcount_set_wait(&set, false); /* returns at once */
    ck_assert_uint_eq(e.waiters, 0);
}
END_TEST

START_TEST(a_watch_is_woken_with_all)
{
    struct eventcount_set set;
    struct eventcount e;

    eventcount_init(&e);
    watch(&set, &e);
    eventcount_prepare(&e);
    ck_assert(eventcount_notify(&e, UINT32_MAX, false));
    ck_assert_uint_eq(e.waiters, 1);
    eventcount_cancel(&e);
    eventcount_set_cancel(&set);
    watch(&set, &e);
    eventcount_wake_watch(&e, false);
    eventcount_set_wait(&set, false);
    ck_assert_uint_eq(e.waiters, 0);
}
END_TEST

enum { WATCHES = 2000 };
struct watched {
    struct eventcount e[2];
    _Atomic uint32_t made;
    uint32_t n;
};

static void *watches_all(void *arg)
{
    struct watched *w = arg;
    struct eventcount_set set;

    for (uint32_t seen = 0; seen < WATCHES;) {
        eventcount_set_init_watch(&set);
        for (uint32_t i = 0; i < w->n; i++)
            eventcount_set_add(&set, &w->e[i], NULL);
        uint32_t made = atomic_load(&w->made);
        if (made != seen)
            eventcount_set_cancel(&set);
        else
            eventcount_set_wait(&set, false);
        seen = made;
    }
    return NULL;
}

/* Waiters come and go beside it. A lost wake-up hangs until check's timeout. */
START_TEST(no_wake_up_of_a_watch_is_lost)
{
    struct watched w = {.n = (uint32_t)_i + 1};
    pthread_t thread;

    if (w.n > 1 && !eventcount_set_available())
        return;
    for (uint32_t i = 0; i < w.n; i++)
        eventcount_init(&w.e[i]);
    ck_assert_int_eq(pthread_create(&thread, NULL, watches_all, &w), 0);
    for (uint32_t i = 1; i <= WATCHES; i++) {
        struct eventcount *e = &w.e[i % w.n];

        eventcount_prepare(e);
        eventcount_cancel(e);
        atomic_store(&w.made, i);
        eventcount_notify(e, 1, false);
        while (i % 3 == 0 && !is_watched(e) && i < WATCHES)
            sched_yield();
    }
    pthread_join(thread, NULL);
    ck_assert_uint_eq(w.e[0].waiters, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("event");
    TCase *t = tcase_create("event");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, notify_without_waiters_makes_no_system_call);
    tcase_add_test(t, a_notify_between_prepare_and_wait_is_not_lost);
    tcase_add_test(t, wait_gives_up_in_time);
    tcase_add_test(t, no_wake_up_is_lost_between_threads);
    tcase_add_test(t, no_wake_up_is_lost_between_processes);
    tcase_add_test(t, notify_all_wakes_all);
    tcase_add_test(t, no_wake_up_is_lost_on_several_at_once);
    tcase_add_test(t, a_set_knows_which_one_rang);
    tcase_add_test(t, a_watch_is_woken_where_there_is_no_waiter);
    tcase_add_test(t, a_watch_is_woken_with_all);
    tcase_add_loop_test(t, no_wake_up_of_a_watch_is_lost, 0, 2);
    suite_add_tcase(s, t);
    return run_suite(s);
}
