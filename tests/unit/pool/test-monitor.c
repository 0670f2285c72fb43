/* SPDX-License-Identifier: Apache-2.0
 *
 * test-monitor.c: workers that block without saying so. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pool/worker.h"
#include "support.h"

enum { SPINNERS = 8, STARVED_MSEC = 40, MANY = 64, ABOVE = 3, QUIET_USEC = 200000 };

static const uint32_t sizes[] = {1, 2, 4};
static int pipes[2];
static atomic_uint reading;
static atomic_bool finish;

static void read_one(void)
{
    char c;

    ck_assert_int_eq(read(pipes[0], &c, 1), 1);
}

static void write_some(size_t n)
{
    static const char bytes[MANY + POOL_SPARES_MAX + ABOVE];

    ck_assert_int_eq(write(pipes[1], bytes, n), (ssize_t)n);
}

static void do_read(struct wsd_worker *self, void *arg)
{
    atomic_fetch_add(&reading, 1);
    read_one();
}

static void do_nothing(struct wsd_worker *self, void *arg)
{
}

static void do_look_at_signals(struct wsd_worker *self, void *arg)
{
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    ck_assert_int_eq(sigismember(&mask, SIGTERM), 0);
    ck_assert_int_eq(sigismember(&mask, SIGUSR1), 1);
}

static struct pool *begin(uint32_t workers)
{
    ck_assert_int_eq(pipe(pipes), 0);
    atomic_store(&reading, 0);
    atomic_store(&finish, false);
    return new_pool(workers);
}

static void end(struct pool *pool)
{
    pool_free(pool);
    close(pipes[0]);
    close(pipes[1]);
}

static void wait_for_readers(uint32_t n)
{
    while (atomic_load(&reading) < n)
        usleep(100);
}

static uint64_t count_blocked(const struct pool *pool)
{
    struct pool_counters count;
    uint64_t n = 0;

    for (uint32_t i = 0; i < pool_workers_seen(pool); i++) {
        pool_worker_counters(pool, i, &count);
        n += count.blocked;
    }
    return n;
}

static uint32_t count_retired(const struct pool *pool)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < pool_workers_seen(pool); i++)
        n += pool_worker_kind(pool, i) == POOL_RETIRED;
    return n;
}

/* A worker retires between two tasks. */
static void wait_for_running(struct pool *pool, uint32_t n)
{
    while (atomic_load(&pool->running) != n || pool_workers_seen(pool) - count_retired(pool) != n)
        run_on(pool, do_nothing, NULL);
}

struct sleeper {
    unsigned long sleeps; /* how often it has gone to sleep */
    bool asleep;
};

static struct sleeper look_at_monitor(void)
{
    DIR *d = opendir("/proc/self/task");
    struct sleeper found = {0};
    char path[512], line[256], state;

    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));) {
        bool monitor = false;

        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f)) {
            monitor |= strcmp(line, "Name:\twsd-monitor\n") == 0;
            if (monitor && sscanf(line, "State: %c", &state) == 1)
                found.asleep = state == 'S';
            if (monitor)
                sscanf(line, "voluntary_ctxt_switches: %lu", &found.sleeps);
        }
        if (f)
            fclose(f);
    }
    closedir(d);
    return found;
}

static unsigned long count_sleeps(void)
{
    return look_at_monitor().sleeps;
}

START_TEST(a_spare_has_the_signals_of_the_others)
{
    sigset_t usr1;
    struct root root;

    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &usr1, NULL);
    struct pool *pool = begin(1);
    run_on(pool, do_look_at_signals, NULL);
    root_submit(pool, &root, do_read, NULL);
    wait_for_readers(1);
    run_on(pool, do_look_at_signals, NULL); /* on a worker that the monitor has added */
    ck_assert_uint_eq(count_blocked(pool), 1);
    write_some(1);
    root_wait(&root);
    end(pool);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they need address space of their own */
static void limit_address_space(void)
{
    unsigned long pages;
    FILE *statm = fopen("/proc/self/statm", "r");

    ck_assert_ptr_nonnull(statm);
    ck_assert_int_eq(fscanf(statm, "%lu", &pages), 1);
    fclose(statm);
    struct rlimit limit = {pages * 4096 + (4u << 20), RLIM_INFINITY}; /* a stack has 8 MiB */
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

START_TEST(one_that_cannot_be_replaced_yet_is_tried_again)
{
    struct rlimit before;
    struct root roots[2];

    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    struct pool *pool = begin(1);
    root_submit(pool, &roots[0], do_read, NULL);
    wait_for_readers(1);
    limit_address_space();
    root_submit(pool, &roots[1], do_nothing, NULL);
    while (count_blocked(pool) == 0)
        usleep(100);
    for (unsigned long from = count_sleeps(); count_sleeps() < from + 2;) /* it has tried, and goes on looking */
        usleep(1000);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    root_wait(&roots[1]);
    write_some(1);
    root_wait(&roots[0]);
    end(pool);
}
END_TEST
#endif

START_TEST(those_that_read_hold_up_no_others)
{
    uint32_t n = sizes[_i];
    struct pool *pool = begin(n);
    struct root roots[4];

    for (int round = 0; round < 3; round++) {
        atomic_store(&reading, 0);
        for (uint32_t i = 0; i < n; i++)
            root_submit(pool, &roots[i], do_read, NULL);
        wait_for_readers(n);
        for (int i = 0; i < 20; i++)
            run_on(pool, do_nothing, NULL);
        ck_assert_uint_ge(count_blocked(pool), 1);
        write_some(n);
        for (uint32_t i = 0; i < n; i++)
            root_wait(&roots[i]);
        wait_for_running(pool, n);
    }
    ck_assert_uint_le(pool_workers_seen(pool), 2 * n + 1); /* the same ones again */
    end(pool);
}
END_TEST

/* The spare worker runs what the reader waits for. */
static void do_write(struct wsd_worker *self, void *arg)
{
    write_some(1);
}

static void do_spawn_and_read(struct wsd_worker *self, void *arg)
{
    wsd_spawn(self, do_write, NULL);
    wsd_spawn(self, do_nothing, NULL);
    read_one();
    wsd_sync(self);
    wsd_sync(self);
}

START_TEST(a_spawned_task_that_a_reader_waits_for_is_stolen)
{
    struct pool *pool = begin(1);

    for (int i = 0; i < 5; i++)
        run_on(pool, do_spawn_and_read, NULL);
    wait_for_running(pool, 1);
    end(pool);
}
END_TEST

/* --- it has gone on --- */

static void do_read_and_compute(struct wsd_worker *self, void *arg)
{
    do_read(self, NULL);
    while (!atomic_load(&finish))
        ;
}

/* Runs as long as the one that has come back is not seen. */
static void do_write_and_compute(struct wsd_worker *self, void *arg)
{
    struct pool *pool = arg;

    write_some(1);
    while (atomic_load(&pool->running) != 2)
        ;
    atomic_store(&finish, true);
}

START_TEST(one_that_computes_again_counts_as_running_where_work_waits)
{
    struct pool *pool = begin(1);
    struct root reader, writer, last;

    root_submit(pool, &reader, do_read_and_compute, NULL);
    wait_for_readers(1);
    root_submit(pool, &writer, do_write_and_compute, pool);
    root_submit(pool, &last, do_nothing, NULL);
    root_wait(&reader);
    root_wait(&writer);
    root_wait(&last);
    wait_for_running(pool, 1);
    end(pool);
}
END_TEST

/* Runs until the one that has come back has stopped. */
static void do_write_and_stay(struct wsd_worker *self, void *arg)
{
    write_some(1);
    while (count_retired(arg) == 0)
        ;
    atomic_store(&finish, true);
}

static void do_look(struct wsd_worker *self, void *arg)
{
    ck_assert(atomic_load(&finish));
}

START_TEST(one_that_comes_back_takes_no_other_task)
{
    struct root reader, writer, next[20];

    for (int round = 0; round < 5; round++) {
        struct pool *pool = begin(1);

        root_submit(pool, &reader, do_read, NULL);
        wait_for_readers(1);
        root_submit(pool, &writer, do_write_and_stay, pool);
        for (int i = 0; i < 20; i++)
            root_submit(pool, &next[i], do_look, NULL);
        for (int i = 0; i < 20; i++)
            root_wait(&next[i]);
        end(pool);
    }
}
END_TEST

static void do_read_and_say(struct wsd_worker *self, void *arg)
{
    do_read(self, NULL);
    wsd_blocking_begin(self);
    do_read(self, NULL);
    wsd_blocking_end(self);
}

START_TEST(one_that_was_missed_and_then_says_that_it_blocks_is_counted_once)
{
    struct pool *pool = begin(1);
    struct root reader;

    for (uint32_t round = 1; round <= 5; round++) {
        atomic_store(&reading, 0);
        root_submit(pool, &reader, do_read_and_say, NULL);
        wait_for_readers(1);
        run_on(pool, do_nothing, NULL);
        write_some(1);
        wait_for_readers(2);
        ck_assert_uint_eq(atomic_load(&pool->running), 1);
        run_on(pool, do_nothing, NULL);
        write_some(1);
        root_wait(&reader);
        wait_for_running(pool, 1);
        ck_assert_uint_ge(count_blocked(pool), round);
    }
    end(pool);
}
END_TEST

/* --- none is needed --- */

static void do_compute(struct wsd_worker *self, void *arg)
{
    uint64_t begin_usec = clock_thread_usec();

    while (clock_thread_usec() - begin_usec < STARVED_MSEC * 1000u)
        ;
}

static void signal_all(const pid_t *pids, int n, int signal)
{
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(kill(pids[i], signal), 0);
}

/* One CPU, on which other processes compute: each worker waits long for it again and again. They begin when the workers
 * have run once: an emulator lets threads wait for each other, asleep, while it translates. */
START_TEST(one_that_waits_for_a_cpu_gets_no_spare_worker)
{
    enum { N = 6 };
    struct root roots[N];
    pid_t spinners[SPINNERS];

    pin_to_one_cpu();
    for (int i = 0; i < SPINNERS; i++) {
        spinners[i] = fork();
        ck_assert_int_ge(spinners[i], 0);
        if (spinners[i] == 0)
            for (;;) /* a constant condition: a compiler may take any other loop for one that ends */
                ;
    }
    signal_all(spinners, SPINNERS, SIGSTOP);
    struct pool *pool = begin(2);
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            signal_all(spinners, SPINNERS, SIGCONT);
        for (int i = 0; i < N; i++)
            root_submit(pool, &roots[i], do_compute, NULL);
        for (int i = 0; i < N; i++)
            root_wait(&roots[i]);
    }
    ck_assert_uint_eq(count_blocked(pool), 0);
    ck_assert_uint_eq(pool_workers_seen(pool), 2);
    end(pool);
    signal_all(spinners, SPINNERS, SIGKILL);
    for (int i = 0; i < SPINNERS; i++)
        waitpid(spinners[i], NULL, 0);
}
END_TEST

/* It says that it watches before it sleeps: there it may wait for a CPU. */
static void wait_for_watch(const struct pool *pool)
{
    while (!(atomic_load(&pool->park.event->waiters) & EVENTCOUNT_WATCHED) || !look_at_monitor().asleep)
        usleep(POOL_MISSED_AFTER_USEC);
}

START_TEST(where_nothing_waits_the_monitor_sleeps)
{
    struct pool *pool = begin(1);
    struct root reader;

    run_on(pool, do_nothing, NULL);
    wait_for_watch(pool);
    unsigned long before = count_sleeps();
    usleep(QUIET_USEC); /* the length of the measurement */
    ck_assert_uint_eq(count_sleeps(), before);

    root_submit(pool, &reader, do_read, NULL);
    wait_for_readers(1);
    wait_for_watch(pool);
    before = count_sleeps();
    usleep(QUIET_USEC);
    ck_assert_uint_eq(count_sleeps(), before);
    ck_assert_uint_eq(count_blocked(pool), 0);
    ck_assert_uint_eq(pool_workers_seen(pool), 1);

    run_on(pool, do_nothing, NULL); /* now something waits */
    ck_assert_uint_eq(count_blocked(pool), 1);
    write_some(1);
    root_wait(&reader);
    end(pool);
}
END_TEST

START_TEST(there_are_as_many_spare_workers_as_there_may_be)
{
    enum { N = MANY + POOL_SPARES_MAX };
    static struct root roots[N + ABOVE];
    struct pool *pool = begin(MANY);

    for (int i = 0; i < N + ABOVE; i++)
        root_submit(pool, &roots[i], do_read, NULL);
    wait_for_readers(N);
    for (unsigned long from = count_sleeps(); count_sleeps() < from + 5;) /* it goes on looking */
        usleep(1000);
    ck_assert_uint_eq(atomic_load(&reading), N);
    ck_assert_uint_eq(pool_workers_seen(pool), N);
    ck_assert_uint_ge(count_blocked(pool), POOL_SPARES_MAX);
    write_some(N + ABOVE);
    for (int i = 0; i < N + ABOVE; i++)
        root_wait(&roots[i]);
    wait_for_running(pool, MANY);
    end(pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("monitor");
    TCase *t = tcase_create("monitor");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_spare_has_the_signals_of_the_others);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(t, one_that_cannot_be_replaced_yet_is_tried_again);
#endif
    tcase_add_loop_test(t, those_that_read_hold_up_no_others, 0, 3);
    tcase_add_test(t, a_spawned_task_that_a_reader_waits_for_is_stolen);
    tcase_add_test(t, one_that_computes_again_counts_as_running_where_work_waits);
    tcase_add_test(t, one_that_comes_back_takes_no_other_task);
    tcase_add_test(t, one_that_was_missed_and_then_says_that_it_blocks_is_counted_once);
    tcase_add_test(t, one_that_waits_for_a_cpu_gets_no_spare_worker);
    tcase_add_test(t, where_nothing_waits_the_monitor_sleeps);
    tcase_add_test(t, there_are_as_many_spare_workers_as_there_may_be);
    suite_add_tcase(s, t);
    return run_suite(s);
}
