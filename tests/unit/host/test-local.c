/* SPDX-License-Identifier: Apache-2.0
 *
 * test-local.c: wsctl-local.so, loaded as wsctl loads it. */
#include "client/wsctl/local-module.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wsd/client.h>

static int (*run)(const struct local_request *, struct local_result *);
static struct local_request q;
static struct local_result result;
static char *out;
static size_t out_size, out_limit;
static atomic_int calls;
static char last_message[256];

static int output(const void *data, size_t size, void *userdata)
{
    ck_assert_ptr_eq(userdata, &q);
    ck_assert_uint_gt(size, 0);
    atomic_fetch_add(&calls, 1);
    if (out_size >= out_limit)
        return 1;
    out = realloc(out, out_size + size + 1);
    memcpy(out + out_size, data, size);
    out_size += size;
    out[out_size] = 0;
    return 0;
}

static void message(int level, const char *text, void *userdata)
{
    snprintf(last_message, sizeof(last_message), "%d %s", level, text);
}

static void setup(void)
{
    static const char *dirs[1];
    void *module = dlopen(getenv("WSCTL_LOCAL"), RTLD_NOW | RTLD_LOCAL);

    ck_assert_msg(module != NULL, "%s", dlerror());
    run = (int (*)(const struct local_request *, struct local_result *))dlsym(module, "wsctl_local_run");
    ck_assert(run != NULL);
    dirs[0] = getenv("TEST_PLUGINS");
    out_limit = SIZE_MAX;
    q = (struct local_request){.size = sizeof(q),
                               .input_fd = -1,
                               .plugin_dirs = dirs,
                               .n_plugin_dirs = 1,
                               .output = output,
                               .message = message,
                               .userdata = &q};
}

START_TEST(job_runs_and_its_result_is_told)
{
    const char *args[] = {"one", "", "three"};

    q.plugin = "echo";
    q.args = args;
    q.n_args = 3;
    ck_assert_int_eq(run(&q, &result), 0);
    ck_assert_int_eq(result.state, WSD_JOB_SUCCEEDED);
    ck_assert_int_eq(result.exit, 0);
    ck_assert_str_eq(result.plugin, "echo");
    ck_assert_str_eq(result.function, "echo");
    ck_assert_str_eq(out, "one\n\nthree\n");
    args[0] = "9";
    args[1] = "words";
    q.n_args = 2;
    q.function = "status";
    ck_assert_int_eq(run(&q, &result), 0);
    ck_assert_int_eq(result.state, WSD_JOB_FAILED);
    ck_assert_int_eq(result.exit, 9);
    ck_assert_str_eq(result.error, "words");
    ck_assert_str_eq(result.status, "asked for 9");
    ck_assert_str_eq(last_message, "6 ends with 9");
}
END_TEST

START_TEST(what_cannot_be_run_is_an_error)
{
    q.plugin = "nosuch";
    ck_assert_int_eq(run(&q, &result), -ENOENT);
    ck_assert_ptr_nonnull(strstr(result.error, "not found in"));
    ck_assert_int_eq(chdir(getenv("TEST_PLUGINS")), 0);
    q.n_plugin_dirs = 0;
    q.plugin = "echo";
    ck_assert_int_eq(run(&q, &result), -ENOENT);
    ck_assert_ptr_nonnull(strstr(result.error, "write ./echo.so"));
    q.plugin = "./echo.so";
    q.function = "nosuch";
    ck_assert_int_eq(run(&q, &result), -ENOENT);
    ck_assert_str_eq(result.error, "echo has no function nosuch");
    q.function = NULL;
    q.plugin = "./wrong-abi.so";
    ck_assert_int_eq(run(&q, &result), -ENOEXEC);
    q.plugin = "./echo.so";
    q.size = 8;
    ck_assert_int_eq(run(&q, &result), -EINVAL);
    q.size = sizeof(q);
    ck_assert_int_eq(run(&q, &result), 0);
}
END_TEST

static int input(size_t size, bool as_pipe)
{
    char name[] = "/tmp/wsd-test-local-XXXXXX", command[128];
    int fd = mkstemp(name);

    for (size_t i = 0; i < size; i++)
        ck_assert_int_eq(write(fd, &"abcdefghijklmnop"[i % 16], 1), 1);
    close(fd);
    snprintf(command, sizeof(command), "cat %s; rm %s", name, name);
    if (as_pipe)
        return fileno(popen(command, "r"));
    fd = open(name, O_RDONLY | O_CLOEXEC);
    unlink(name);
    return fd;
}

START_TEST(input_comes_from_files_and_pipes)
{
    static const size_t sizes[] = {0, 1, 4096, 100000};

    for (size_t i = 0; i < 4; i++)
        for (int as_pipe = 0; as_pipe < 2; as_pipe++)
            for (int streaming = 0; streaming < 2; streaming++) {
                q.input_fd = input(sizes[i], as_pipe);
                q.plugin = "echo";
                q.function = streaming ? "stream" : "echo";
                out_size = 0;
                ck_assert_int_eq(run(&q, &result), 0);
                ck_assert_int_eq(result.exit, 0);
                ck_assert_uint_eq(out_size, sizes[i]);
                for (size_t k = 0; k < out_size; k++)
                    ck_assert_int_eq(out[k], "abcdefghijklmnop"[k % 16]);
                close(q.input_fd);
            }
    q.input_fd = input(100, false);
    ck_assert_int_eq(lseek(q.input_fd, 98, SEEK_SET), 98);
    out_size = 0;
    q.function = "echo";
    ck_assert_int_eq(run(&q, &result), 0);
    ck_assert_str_eq(out, "cd");
}
END_TEST

START_TEST(reader_that_goes_cancels_the_job)
{
    q.plugin = "bigoutput";
    q.args = (const char *[]){"100000000"};
    q.n_args = 1;
    out_limit = 1000000;
    ck_assert_int_eq(run(&q, &result), 0);
    ck_assert_int_eq(result.state, WSD_JOB_CANCELLED);
    ck_assert_int_eq(result.exit, 130);
    ck_assert_uint_lt(out_size, 4000000);
}
END_TEST

START_TEST(time_limit_ends_the_job)
{
    q.plugin = "spin";
    q.timeout_usec = 50000;
    ck_assert_int_eq(run(&q, &result), 0);
    ck_assert_int_eq(result.state, WSD_JOB_TIMED_OUT);
    ck_assert_int_eq(result.exit, 124);
    ck_assert_str_eq(result.error, "its time was up");
    q.function = "deaf";
    ck_assert_int_eq(run(&q, &result), 0);
    ck_assert_int_eq(result.state, WSD_JOB_TIMED_OUT);
    ck_assert_str_eq(result.error, "its time was up, and it did not heed its cancel flag");
    _exit(0); /* as its user should: the job's thread is still there */
}
END_TEST

START_TEST(workers_are_as_many_as_wanted)
{
    for (unsigned n = 0; n <= 16; n = n ? n * 4 : 1) {
        q.plugin = "fork";
        q.args = (const char *[]){"22"};
        q.n_args = 1;
        q.workers = n;
        out_size = 0;
        ck_assert_int_eq(run(&q, &result), 0);
        ck_assert_str_eq(out, "17711\n");
    }
}
END_TEST

START_TEST(fini_runs_before_it_returns)
{
    char name[] = "/tmp/wsd-test-local-XXXXXX", text[8] = "";
    int fd = mkstemp(name);

    setenv("LIFETIME_FILE", name, 1);
    q.plugin = "lifetime";
    ck_assert_int_eq(run(&q, &result), 0);
    ck_assert_int_eq(read(fd, text, sizeof(text)), 5);
    unlink(name);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host/local");
    TCase *c = tcase_create("local");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, job_runs_and_its_result_is_told);
    tcase_add_test(c, what_cannot_be_run_is_an_error);
    tcase_add_test(c, input_comes_from_files_and_pipes);
    tcase_add_test(c, reader_that_goes_cancels_the_job);
    tcase_add_test(c, time_limit_ends_the_job);
    tcase_add_test(c, workers_are_as_many_as_wanted);
    tcase_add_test(c, fini_runs_before_it_returns);
    suite_add_tcase(s, c);
    return run_suite(s);
}
