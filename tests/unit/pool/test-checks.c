/* SPDX-License-Identifier: Apache-2.0
 *
 * test-checks.c: what a plugin that is compiled with WSD_CHECKS is told of a sync that is not that of its spawn. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

WSD_TASK_1(int, one, int, x)
{
    return x;
}

WSD_TASK_2(long, two, long, x, long, y)
{
    return x + y;
}

WSD_VOID_TASK_1(none, int, x)
{
}

static void plain(struct wsd_worker *self, void *arg)
{
}

enum { LINE = __LINE__ + 7 };

/* Each spawn is in line LINE, each sync in the one below. */
/* clang-format off */
static void wrong(struct wsd_worker *self, void *arg)
{
    switch (*(int *)arg) {
    case 0: WSD_SPAWN(one, 1); break; case 1: WSD_SPAWN(none, 1); break; case 2: wsd_spawn(self, plain, NULL); break; case 3: WSD_SPAWN(two, 1, 2); break; }
    switch (*(int *)arg) { case 0: (void)WSD_SYNC(two); break; case 1: (void)WSD_SYNC(one); break; case 2: WSD_SYNC(none); break; default: wsd_sync(self); }
}
/* clang-format on */

/* Stolen: another worker has taken the child, and its slot's word with it. */
static atomic_bool started;

WSD_TASK_0(int, slow)
{
    atomic_store(&started, true);
    return 1;
}

static void wrong_stolen(struct wsd_worker *self, void *arg)
{
    WSD_SPAWN(slow);
    while (!atomic_load(&started))
        ;
    WSD_SYNC(none);
}

/* What it says before it aborts. */
static void said(uint32_t workers, wsd_task_fn *fn, int how, char *text, size_t size)
{
    int pipe_fds[2], status;
    ssize_t n;

    ck_assert_int_eq(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], 2);
        run_on(new_pool(workers), fn, &how);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", (unsigned)status);
    n = read(pipe_fds[0], text, size - 1);
    ck_assert_int_gt(n, 0);
    text[n] = 0;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

START_TEST(a_sync_of_another_type_is_told_with_the_lines_of_both)
{
    static const char *const spawns[] = {"WSD_SPAWN(one)", "WSD_SPAWN(none)", "wsd_spawn()", "WSD_SPAWN(two)"};
    static const char *const syncs[] = {"WSD_SYNC(two)", "WSD_SYNC(one)", "WSD_SYNC(none)", "wsd_sync()"};
    char text[1000], wanted[200];

    said(1, wrong, _i, text, sizeof(text));
    snprintf(wanted, sizeof(wanted), "test-checks.c:%d: ", LINE + 1);
    ck_assert_msg(strstr(text, wanted), "%s", text);
    snprintf(wanted, sizeof(wanted), "%s joins the child of %s at ", syncs[_i], spawns[_i]);
    ck_assert_msg(strstr(text, wanted), "%s", text);
    snprintf(wanted, sizeof(wanted), "test-checks.c:%d", LINE);
    ck_assert_msg(strstr(text, wanted), "%s", text);
}
END_TEST

START_TEST(a_sync_without_a_spawn_is_told)
{
    char text[1000];

    said(1, wrong, 4, text, sizeof(text));
    ck_assert_msg(strstr(text, "wsd_sync() joins nothing"), "%s", text);
}
END_TEST

START_TEST(one_of_a_stolen_child_too)
{
    char text[1000];

    said(2, wrong_stolen, 0, text, sizeof(text));
    ck_assert_msg(strstr(text, "WSD_SYNC(none) joins the child of WSD_SPAWN(slow)"), "%s", text);
}
END_TEST

static void do_many(struct wsd_worker *self, void *arg)
{
    for (int i = 0; i < 10000; i++)
        WSD_SPAWN(one, i);
    for (int i = 10000; i-- > 0;)
        ck_assert_int_eq(WSD_SYNC(one), i);
    WSD_SPAWN(none, 1);
    wsd_spawn(self, plain, NULL);
    wsd_sync(self);
    WSD_SYNC(none);
}

START_TEST(a_right_one_is_not)
{
    run_on(new_pool(2), do_many, NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("checks");
    TCase *t = tcase_create("checks");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_sync_of_another_type_is_told_with_the_lines_of_both, 0, 4);
    tcase_add_test(t, a_sync_without_a_spawn_is_told);
    tcase_add_test(t, one_of_a_stolen_child_too);
    tcase_add_test(t, a_right_one_is_not);
    suite_add_tcase(s, t);
    return run_suite(s);
}
