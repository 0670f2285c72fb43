/* SPDX-License-Identifier: Apache-2.0
 *
 * test-trace.c: what the trace of a pool tells, and that it may be begun, ended and written at any time. */
#include "pool/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "support.h"

/* --- reading what was written ----------------------------------------------------------------------------------- */

struct line {
    char ph;
    uint32_t pid, tid, victim;
    bool has_victim;
    double ts, dur;
    char cat[32], name[64], job[40], id[64];
};

static struct line *lines;
static size_t n_lines;
static uint64_t lost;

static int put(const char *text, size_t size, void *userdata)
{
    ck_assert_uint_gt(size, 0);
    ck_assert_int_eq(text[size - 1], '\n'); /* whole lines only */
    return buffer_put(userdata, text, size);
}

static bool find(const char *line, const char *key, const char *format, void *ret)
{
    const char *at = strstr(line, key);

    return at && sscanf(at + strlen(key), format, ret) == 1;
}

static void parse(const char *text, struct line *l)
{
    size_t n = strlen(text);

    *l = (struct line){.ph = 0};
    ck_assert_msg(text[0] == '{' && text[n - 1] == '}', "not an object: %s", text);
    ck_assert_msg(find(text, "\"ph\":\"", "%c", &l->ph), "no ph: %s", text);
    ck_assert(find(text, "\"pid\":", "%u", &l->pid));
    find(text, "\"tid\":", "%u", &l->tid);
    find(text, "\"ts\":", "%lf", &l->ts);
    l->dur = -1;
    find(text, "\"dur\":", "%lf", &l->dur);
    find(text, "\"cat\":\"", "%31[^\"]", l->cat);
    find(text, "\"name\":\"", "%63[^\"]", l->name);
    find(text, "\"job\":\"", "%39[^\"]", l->job);
    find(text, "\"id\":\"", "%63[^\"]", l->id);
    l->has_victim = find(text, "\"victim\":", "%u", &l->victim);
}

static void write_trace(struct pool *pool)
{
    struct buffer text = {0};
    struct pool_trace_output out = {.number = 7, .put = put, .userdata = &text};

    free(lines);
    lines = NULL;
    n_lines = 0;
    lost = 0;
    ck_assert_int_eq(pool_trace_write(pool, &out, &lost), 0);
    ck_assert_int_eq(buffer_put(&text, "", 1), 0);
    for (char *save = NULL, *l = strtok_r((char *)text.data, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        if (n_lines % 1024 == 0)
            lines = realloc(lines, (n_lines + 1024) * sizeof(*lines));
        ck_assert_ptr_nonnull(lines);
        parse(l, &lines[n_lines++]);
    }
    buffer_deinit(&text);
}

static size_t count(char ph, const char *cat, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < n_lines; i++)
        n += lines[i].ph == ph && (!cat || strcmp(lines[i].cat, cat) == 0) &&
             (!name || strcmp(lines[i].name, name) == 0);
    return n;
}

/* What holds for each trace. */
static void check_sane(uint32_t workers)
{
    for (size_t i = 0; i < n_lines; i++) {
        struct line *l = &lines[i];

        ck_assert_uint_eq(l->pid, 7);
        ck_assert_uint_lt(l->tid, workers);
        if (l->ph == 'X')
            ck_assert_msg(l->ts > 0 && l->dur >= 0, "%s: ts %f dur %f", l->name, l->ts, l->dur);
        if (strcmp(l->cat, "task") == 0) {
            ck_assert(l->has_victim);
            ck_assert_uint_lt(l->victim, workers);
            ck_assert_uint_ne(l->victim, l->tid);
        }
    }
    ck_assert_uint_eq(count('s', "steal", NULL), count('f', "steal", NULL));
    ck_assert_uint_le(count('s', "steal", NULL), count('X', "task", NULL));
}

/* --- work ------------------------------------------------------------------------------------------------------- */

static const char label[] = "plugin:function";

static void subject_name(const void *name, char *ret, size_t size, void *context)
{
    snprintf(ret, size, "%s", (const char *)name);
}

static void about(struct wsd_worker *self, void *context)
{
    struct pool_subject s = {.id = {0x1122334455667788u, (uintptr_t)context}, .name = label};

    pool_subject(self, context ? &s : NULL);
}

static void enter(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    about(self, task_context);
}

static void leave(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    about(self, outer);
}

static struct pool *traced_pool(uint32_t workers)
{
    struct pool_options o = {
        .workers = workers, .task_enter = enter, .task_leave = leave, .subject_name = subject_name};
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    return pool;
}

static _Atomic uint32_t inside;

/* Returns once two are inside. */
static void meet(struct wsd_worker *self, void *arg)
{
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&inside) < 2)
        sched_yield();
}

static void begin_root(struct wsd_worker *self)
{
    self->context = &inside;
    about(self, &inside);
}

/* Its child is stolen: it cannot go on before. */
static void do_meet(struct wsd_worker *self, void *arg)
{
    begin_root(self);
    wsd_spawn(self, meet, NULL);
    meet(self, NULL);
    wsd_sync(self);
}

static void nothing(struct wsd_worker *self, void *arg)
{
}

static _Atomic uint32_t gate, waiting;

static void wait_for_gate(struct wsd_worker *self, void *arg)
{
    begin_root(self);
    atomic_fetch_add(&waiting, 1);
    while (!atomic_load(&gate))
        sched_yield();
}

/* Until the only worker sleeps: its roots have ended, for the trace too. */
static void settle(struct pool *pool)
{
    struct pool_counters c;

    do
        pool_worker_counters(pool, 0, &c);
    while (c.parks == c.wakeups && sched_yield() == 0);
}

/* --- */

START_TEST(a_pool_that_was_never_traced_tells_nothing)
{
    struct pool *pool = traced_pool(2);

    run_on(pool, nothing, NULL);
    write_trace(pool);
    ck_assert_uint_eq(n_lines, 0);
    pool_trace_stop(pool);
    pool_trace_forget(pool);
    write_trace(pool);
    ck_assert_uint_eq(n_lines, 0);
    pool_free(pool);
}
END_TEST

START_TEST(what_happens_while_it_is_off_is_not_in_it)
{
    struct pool *pool = traced_pool(1);

    run_on(pool, nothing, NULL);
    settle(pool);
    pool_trace_start(pool);
    pool_trace_stop(pool);
    run_on(pool, nothing, NULL);
    write_trace(pool);
    ck_assert_uint_eq(count('X', "root", NULL), 0);
    ck_assert_uint_eq(count('M', NULL, "thread_name"), 1);
    ck_assert_uint_eq(count('M', NULL, "process_name"), 1);
    pool_free(pool);
}
END_TEST

START_TEST(a_stolen_task_is_told_with_job_thief_and_victim)
{
    struct pool *pool = traced_pool(2);

    atomic_store(&inside, 0);
    pool_trace_start(pool);
    run_on(pool, do_meet, NULL);
    pool_close(pool); /* the root has ended */
    pool_trace_stop(pool);
    write_trace(pool);
    check_sane(pool_workers_seen(pool)); /* a spare worker may have come for the join, where that slept */
    ck_assert_uint_eq(count('X', "root", label), 1);
    ck_assert_uint_eq(count('X', "task", label), 1);
    ck_assert_uint_eq(count('X', "join", "join"), 1);
    ck_assert_uint_eq(count('s', "steal", "steal"), 1);
    for (size_t i = 0; i < n_lines; i++)
        if (lines[i].ph == 'X' && strcmp(lines[i].name, label) == 0) {
            ck_assert_uint_eq(strlen(lines[i].job), 32);
            ck_assert_int_eq(strncmp(lines[i].job, "8877665544332211", 16), 0);
        }
    ck_assert_uint_eq(lost, 0);
    pool_free(pool);
}
END_TEST

START_TEST(what_runs_all_through_it_is_in_it)
{
    struct pool *pool = traced_pool(1);
    struct root root;

    atomic_store(&gate, 0);
    root_submit(pool, &root, wait_for_gate, NULL);
    while (!atomic_load(&waiting))
        sched_yield();
    pool_trace_start(pool);
    usleep(1000);
    pool_trace_stop(pool);
    atomic_store(&gate, 1);
    root_wait(&root);
    write_trace(pool);
    ck_assert_uint_eq(count('X', NULL, label), 1);
    for (size_t i = 0; i < n_lines; i++)
        if (lines[i].ph == 'X')
            ck_assert(lines[i].dur >= 1000);
    pool_free(pool);
}
END_TEST

START_TEST(what_begins_or_ends_inside_is_cut_off_at_the_edges)
{
    struct pool *pool = traced_pool(2);
    struct root roots[2];

    atomic_store(&gate, 0);
    root_submit(pool, &roots[0], wait_for_gate, NULL);
    while (atomic_load(&waiting) < 1)
        sched_yield();
    pool_trace_start(pool);
    root_submit(pool, &roots[1], wait_for_gate, NULL);
    while (atomic_load(&waiting) < 2)
        sched_yield();
    write_trace(pool); /* one began before, one within; none has ended */
    ck_assert_uint_eq(count('X', NULL, label), 2);
    atomic_store(&gate, 1);
    root_wait(&roots[0]);
    root_wait(&roots[1]);
    pool_close(pool);
    write_trace(pool); /* both have */
    ck_assert_uint_eq(count('X', "root", label), 2);
    check_sane(2);
    pool_free(pool);
}
END_TEST

START_TEST(the_oldest_are_overwritten_and_counted)
{
    struct pool *pool = traced_pool(1);
    uint32_t roots = TRACE_EVENTS_MAX; /* two events each */

    pool_trace_start(pool);
    for (uint32_t i = 0; i < roots; i++)
        run_on(pool, nothing, NULL);
    pool_close(pool);
    pool_trace_stop(pool);
    write_trace(pool);
    ck_assert_uint_ge(lost, roots);
    ck_assert_uint_eq(count('i', "lost", NULL), 1);
    ck_assert_uint_ge(count('X', NULL, NULL), TRACE_EVENTS_MAX / 2 - 1);
    ck_assert_uint_le(count('X', NULL, NULL), TRACE_EVENTS_MAX);
    check_sane(1);
    pool_free(pool);
}
END_TEST

START_TEST(a_new_trace_forgets_the_last_one)
{
    struct pool *pool = traced_pool(1);

    for (int i = 0; i < 3; i++) {
        pool_trace_start(pool);
        run_on(pool, nothing, NULL);
        run_on(pool, nothing, NULL);
        settle(pool);
        pool_trace_stop(pool);
        write_trace(pool);
        ck_assert_uint_eq(count('X', "root", NULL), 2);
        if (i == 1)
            pool_trace_forget(pool);
    }
    pool_trace_forget(pool);
    write_trace(pool);
    ck_assert_uint_eq(n_lines, 0);
    pool_free(pool);
}
END_TEST

static int refuse(const char *text, size_t size, void *userdata)
{
    ++*(int *)userdata;
    return -ENOSPC;
}

START_TEST(an_error_of_the_taker_ends_the_writing)
{
    struct pool *pool = traced_pool(1);
    int calls = 0;
    struct pool_trace_output out = {.put = refuse, .userdata = &calls};

    pool_trace_start(pool);
    for (int i = 0; i < 2000; i++)
        run_on(pool, nothing, NULL);
    ck_assert_int_eq(pool_trace_write(pool, &out, &lost), -ENOSPC);
    ck_assert_int_eq(calls, 1);
    pool_free(pool);
}
END_TEST

static void do_fib(struct wsd_worker *self, void *arg)
{
    begin_root(self);
    ck_assert_int_eq(WSD_CALL(fib, 20), 6765);
}

static _Atomic bool busy;

static void *keep_busy(void *arg)
{
    while (atomic_load(&busy))
        run_on(arg, do_fib, NULL);
    return NULL;
}

START_TEST(it_is_begun_ended_and_written_while_workers_run)
{
    uint32_t workers = _i ? 16 : 2;
    struct pool *pool = traced_pool(workers);
    pthread_t thread;

    atomic_store(&busy, true);
    pthread_create(&thread, NULL, keep_busy, pool);
    for (int i = 0; i < (SLOW ? 15 : 60); i++) {
        pool_trace_start(pool);
        usleep(200u * (unsigned)(i % 4));
        if (i % 3)
            pool_trace_stop(pool);
        write_trace(pool);
        check_sane(pool_workers_seen(pool));
        if (i % 5 == 0)
            pool_trace_forget(pool);
    }
    atomic_store(&busy, false);
    pthread_join(thread, NULL);
    pool_free(pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *c = tcase_create("trace");

    tcase_set_timeout(c, 240);
    tcase_add_test(c, a_pool_that_was_never_traced_tells_nothing);
    tcase_add_test(c, what_happens_while_it_is_off_is_not_in_it);
    tcase_add_test(c, a_stolen_task_is_told_with_job_thief_and_victim);
    tcase_add_test(c, what_runs_all_through_it_is_in_it);
    tcase_add_test(c, what_begins_or_ends_inside_is_cut_off_at_the_edges);
    tcase_add_test(c, the_oldest_are_overwritten_and_counted);
    tcase_add_test(c, a_new_trace_forgets_the_last_one);
    tcase_add_test(c, an_error_of_the_taker_ends_the_writing);
    tcase_add_loop_test(c, it_is_begun_ended_and_written_while_workers_run, 0, 2);
    suite_add_tcase(s, c);
    return run_suite(s);
}
