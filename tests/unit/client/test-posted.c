/* SPDX-License-Identifier: Apache-2.0
 *
 * test-posted.c: jobs that other threads hand to the thread of the handle. */
#include "peer.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND  1000000u
#define THREADS 4
#define EACH    2000

static struct peer peer;
static struct wsd_client *client;
static _Atomic unsigned n_wakes;
static unsigned n_done, n_refused;
static int last_error, wake_fd = -1;
static char last_text[256];
static bool free_in_done, post_in_done;

static void wake(void *userdata)
{
    ck_assert_ptr_eq(userdata, &peer);
    atomic_fetch_add(&n_wakes, 1);
    if (wake_fd >= 0)
        eventfd_write(wake_fd, 1);
}

static void setup(void)
{
    n_done = n_refused = 0;
    atomic_store(&n_wakes, 0);
    last_error = 1;
    free_in_done = post_in_done = false;
    peer_start(&peer, &client, 1 << 20, FEATURE_PAYLOAD);
    ck_assert_int_eq(wsd_client_set_wake(client, wake, &peer), 0);
}

static void teardown(void)
{
    client = wsd_client_free(client);
    peer_deinit(&peer);
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text,
                    void *userdata);

static int post_with(void *userdata, const char *plugin, const char *arg)
{
    const char *const args[] = {arg, "last"};
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = userdata};
    const struct wsd_submit submit = {.size = sizeof(submit), .plugin = plugin, .args = args, .n_args = 2};

    return wsd_client_post(client, &submit, &callbacks);
}

static int post(void)
{
    return post_with(NULL, "p", "first");
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    n_done++;
    n_refused += call == NULL;
    last_error = error;
    snprintf(last_text, sizeof(last_text), "%s", text);
    ck_assert(!error == (info != NULL));
    if (post_in_done) {
        post_in_done = false;
        ck_assert_int_eq(post(), 0);
    }
    wsd_call_free(call);
    if (free_in_done)
        client = wsd_client_free(client);
}

static void answer(void)
{
    peer_send_accepted(&peer, peer.frame.tag);
    peer_send_done(&peer, peer.frame.tag, WSD_JOB_SUCCEEDED, 0, "");
}

START_TEST(a_job_is_submitted_by_the_handles_thread)
{
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
    {
        char plugin[] = "plugin", arg[] = "an argument"; /* that do not stay */

        ck_assert_int_eq(post_with(NULL, plugin, arg), 0);
        memset(plugin, 'x', sizeof(plugin) - 1);
        memset(arg, 'x', sizeof(arg) - 1);
    }
    ck_assert_uint_eq(atomic_load(&n_wakes), 1);
    ck_assert_uint_eq(wsd_client_timeout_usec(client), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_str_eq(peer.msg.submit.plugin.data, "plugin");
    ck_assert_uint_eq(peer.msg.submit.argc, 2);
    ck_assert_str_eq(peer.msg.submit.args.data, "an argument");
    ck_assert_uint_eq(wsd_client_timeout_usec(client), UINT64_MAX);
    answer();
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_int_eq(last_error, 0);
    ck_assert_uint_eq(wsd_client_open_calls(client), 0);
}
END_TEST

START_TEST(all_of_it_is_copied)
{
    struct wsd_id *ids = calloc(3, sizeof(*ids));
    char key[] = "the key", function[] = "f", tag[] = "night";
    char trace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const char *tags[] = {tag, "day"};
    const struct wsd_submit submit = {.size = sizeof(submit),
                                      .plugin = "p",
                                      .function = function,
                                      .key = key,
                                      .traceparent = trace,
                                      .after = ids,
                                      .n_after = 1,
                                      .after_any = ids + 1,
                                      .n_after_any = 2,
                                      .tags = tags,
                                      .n_tags = 2,
                                      .priority = 7,
                                      .input = "input",
                                      .input_size = 5};

    peer_deinit(&peer);
    wsd_client_free(client);
    peer_start(&peer, &client, 1 << 20, FEATURE_STORE | FEATURE_ORDER | FEATURE_TIME);
    ck_assert_int_eq(wsd_client_set_wake(client, wake, &peer), 0);
    ids[0].bytes[0] = ids[2].bytes[15] = 9;
    ck_assert_int_eq(wsd_client_post(client, &submit, NULL), 0);
    memset(key, 'x', sizeof(key) - 1);
    memset(trace, 'x', sizeof(trace) - 1);
    function[0] = tag[0] = 'x';
    tags[0] = tags[1] = NULL;
    free(ids);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_str_eq(peer.msg.submit.function.data, "f");
    ck_assert_str_eq(peer.msg.submit.key.data, "the key");
    ck_assert_str_eq(peer.msg.submit.traceparent.data, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    ck_assert_str_eq(peer.msg.submit.tags.data, "night,day");
    ck_assert_int_eq(peer.msg.submit.priority, 7);
    ck_assert_uint_eq(peer.msg.submit.after.size, 16);
    ck_assert_int_eq(peer.msg.submit.after.data[0], 9);
    ck_assert_uint_eq(peer.msg.submit.after_any.size, 32);
    ck_assert_int_eq(peer.msg.submit.after_any.data[31], 9);
    ck_assert_uint_eq(peer.frame.body_size, 5);
    ck_assert_mem_eq(peer.frame.body, "input", 5);
}
END_TEST

START_TEST(a_file_is_copied_as_well)
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    const struct wsd_submit submit = {
        .size = sizeof(submit), .plugin = "p", .flags = WSD_SUBMIT_FILE, .input_fd = fd, .input_size = 4};
    unsigned before = count_fds();

    ck_assert_int_eq(write(fd, "file", 4), 4);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(wsd_client_post(client, &submit, NULL), 0);
    close(fd);
    for (int i = 0; i < 2; i++) {
        char text[4];

        peer_expect(&peer, client, FRAME_SUBMIT);
        ck_assert_int_ge(peer.received_fd, 0);
        ck_assert_int_eq(pread(peer.received_fd, text, 4, 0), 4);
        ck_assert_mem_eq(text, "file", 4);
    }
    ck_assert_int_eq(wsd_client_post(client, &submit, NULL), -EBADF);
    ck_assert(peer_quiet(&peer, client));
    ck_assert_uint_le(count_fds(), before); /* the peer may have one */
}
END_TEST

START_TEST(what_is_wrong_is_said_at_once_or_to_done)
{
    struct wsd_submit submit = {.plugin = "p"};

    ck_assert_int_eq(wsd_client_post(client, &submit, NULL), -EINVAL); /* no size */
    ck_assert_int_eq(post_with(NULL, NULL, "x"), 0);
    ck_assert_uint_eq(n_done, 0); /* not on this thread, for all that is known */
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
    ck_assert_uint_eq(n_refused, 1);
    ck_assert_int_eq(last_error, -EINVAL);
    ck_assert_str_eq(last_text, "no plugin is named");
    ck_assert_int_eq(wsd_client_set_wake(client, NULL, NULL), 0);
    ck_assert_int_eq(post(), -EINVAL);
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

START_TEST(one_wake_is_enough)
{
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(post(), 0);
    ck_assert_uint_eq(atomic_load(&n_wakes), 1);
    for (int i = 0; i < 10; i++)
        peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_int_eq(post(), 0);
    ck_assert_uint_eq(atomic_load(&n_wakes), 2);
    post_in_done = true;
    answer(); /* to the tenth, which posts in its done */
    ck_assert_int_eq(wsd_client_process(client), 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    peer_expect(&peer, client, FRAME_SUBMIT);
    ck_assert_uint_eq(atomic_load(&n_wakes), 3);
}
END_TEST

START_TEST(the_end_of_the_handle_is_told)
{
    free_in_done = _i == 1;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(post_with(NULL, _i == 1 ? NULL : "p", "x"), 0);
    if (_i == 0)
        client = wsd_client_free(client);
    else if (_i == 1)
        wsd_client_process(client); /* the first one is refused, and frees the handle */
    else
        peer_close(&peer);
    if (_i == 2)
        ck_assert_int_lt(wsd_client_wait(client, SECOND), 0);
    ck_assert_uint_eq(n_done, 3);
    ck_assert_int_eq(last_error, -ECONNRESET);
    ck_assert_str_ne(last_text, "");
}
END_TEST

START_TEST(a_child_is_told_nothing)
{
    int status;

    ck_assert_int_eq(post(), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int r = post();

        client = wsd_client_free(client);
        _exit(r == -ECHILD && n_done == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    peer_expect(&peer, client, FRAME_SUBMIT);
    answer();
    ck_assert_int_eq(wsd_client_process(client), 0);
    ck_assert_uint_eq(n_done, 1);
}
END_TEST

/* --- many threads ------------------------------------------------------------------------------------------------- */

static void *post_many(void *userdata)
{
    char number[32];

    for (int i = 0; i < EACH; i++) {
        snprintf(number, sizeof(number), "%d %d", *(const int *)userdata, i);
        if (post_with(userdata, "p", number) < 0)
            return userdata;
    }
    return NULL;
}

START_TEST(many_threads_lose_nothing)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], next[THREADS] = {0};
    eventfd_t n;
    void *failed;

    wake_fd = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_many, &numbers[i]), 0);
    }
    for (unsigned left = THREADS * EACH; left > 0;) {
        eventfd_read(wake_fd, &n); /* waits for nothing else */
        ck_assert_int_eq(wsd_client_process(client), 0);
        while (wsd_client_open_calls(client) > 0) {
            int thread, number;

            peer_expect(&peer, client, FRAME_SUBMIT);
            ck_assert_int_eq(sscanf(peer.msg.submit.args.data, "%d %d", &thread, &number), 2);
            ck_assert_int_eq(number, next[thread]++);
            answer();
            wsd_client_process(client);
            left--;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(n_done, THREADS * EACH);
    close(wake_fd);
    wake_fd = -1;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("posted");
    TCase *t = tcase_create("posted");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_job_is_submitted_by_the_handles_thread);
    tcase_add_test(t, all_of_it_is_copied);
    tcase_add_test(t, a_file_is_copied_as_well);
    tcase_add_test(t, what_is_wrong_is_said_at_once_or_to_done);
    tcase_add_test(t, one_wake_is_enough);
    tcase_add_loop_test(t, the_end_of_the_handle_is_told, 0, 3);
    tcase_add_test(t, a_child_is_told_nothing);
    tcase_add_test(t, many_threads_lose_nothing);
    suite_add_tcase(s, t);
    return run_suite(s);
}
