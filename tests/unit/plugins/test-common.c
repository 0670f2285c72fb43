/* SPDX-License-Identifier: Apache-2.0
 *
 * test-common.c: names as coreutils 9.1 prints them in messages under LC_ALL=C, numbers, the cache, and where files end.
 */
#include "plugins/common.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

static const struct {
    const char *name, *quoted;
} names[] = {
    {"plain", "plain"},
    {"", "''"},
    {"with space", "'with space'"},
    {"it's", "\"it's\""},
    {"it's a", "\"it's a\""},
    {"it's $x", "'it'\\''s $x'"},
    {"new\nline", "'new'$'\\n''line'"},
    {"\xe9", "''$'\\351'"},
    {"a\xe9\xe8z", "'a'$'\\351\\350''z'"},
    {"tab\t", "'tab'$'\\t'"},
    {"\x01\x7f", "''$'\\001\\177'"},
    {"back\\slash", "'back\\slash'"},
    {"a:b", "'a:b'"},
    {"it's:", "\"it's:\""},
    {"~", "'~'"},
    {"a~", "a~"},
    {"#", "'#'"},
    {"a#", "a#"},
    {"{", "'{'"},
    {"{a}", "{a}"},
    {"a=b", "'a=b'"},
    {"a?b*[c", "'a?b*[c'"},
    {"it's~", "'it'\\''s~'"},
};

START_TEST(names_are_quoted_as_by_coreutils)
{
    _cleanup_(freep) char *quoted = name_quote(names[_i].name);

    ck_assert_str_eq(quoted, names[_i].quoted);
}
END_TEST

START_TEST(errors_have_words_with_either_sign)
{
    ck_assert_str_eq(error_text(ENOENT), "No such file or directory");
    ck_assert_str_eq(error_text(-EISDIR), "Is a directory");
    ck_assert_str_eq(error_text(-99999), "Unknown error");
}
END_TEST

static void *object_new(void *context)
{
    int *left = context;

    return (*left)-- > 0 ? malloc(1) : NULL;
}

START_TEST(cache_makes_no_more_than_are_in_use)
{
    int left = 2;
    struct cache cache;

    cache_init(&cache, object_new, free, &left);
    void *a = cache_take(&cache), *b = cache_take(&cache);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_null(cache_take(&cache));
    cache_give(&cache, a);
    ck_assert_ptr_eq(cache_take(&cache), a);
    cache_give(&cache, a);
    cache_give(&cache, b);
    cache_deinit(&cache);
}
END_TEST

START_TEST(cache_frees_what_it_has_no_place_for)
{
    int left = 100;
    struct cache cache;
    void *objects[100];

    cache_init(&cache, object_new, free, &left);
    for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
        objects[i] = cache_take(&cache);
    for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
        cache_give(&cache, objects[i]);
    ck_assert_uint_eq(cache.n_objects, ARRAY_SIZE(cache.objects));
    cache_deinit(&cache);
}
END_TEST

static bool never(struct wsd_job *job)
{
    return false;
}

static const struct wsd_job_ops ops = {.size = sizeof(ops), .cancelled = never};

/* A source whose file said so many bytes when it was opened. What is there comes out of a pipe that stays open: a read
 * of nothing would wait, and is an error instead. */
static struct source source_of(struct wsd_job *job, int pipe_fds[2], const char *there, uint64_t said)
{
    ck_assert_int_eq(pipe2(pipe_fds, O_NONBLOCK), 0);
    ck_assert_int_eq(write(pipe_fds[1], there, strlen(there)), (ssize_t)strlen(there));
    job->ops = &ops;
    return (struct source){.job = job, .fd = pipe_fds[0], .size = said};
}

START_TEST(a_file_ends_where_it_said_and_a_read_was_short)
{
    struct wsd_job job = {0};
    char data[16];
    int fds[2];
    struct source source = source_of(&job, fds, "12345", 5);

    ck_assert_int_eq(source_read(&source, data, sizeof(data)), 5);
    close_fd(fds[0]);
    close_fd(fds[1]);
}
END_TEST

START_TEST(a_file_is_read_on_where_its_size_says_nothing)
{
    static const uint64_t said[] = {0, 3, 9}; /* of /proc; it has grown; it has shrunk */

    for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
        struct wsd_job job = {0};
        char data[16];
        int fds[2];
        struct source source = source_of(&job, fds, "12345", said[i]);

        ck_assert_int_eq(source_read(&source, data, sizeof(data)), -EAGAIN);
        ck_assert_int_eq(write(fds[1], "678", 3), 3);
        fds[1] = close_fd(fds[1]);
        ck_assert_int_eq(source_read(&source, data, sizeof(data)), 3);
        close_fd(fds[0]);
    }
}
END_TEST

/* All that is asked of the kernel at once comes, so there may be more. */
START_TEST(a_full_read_does_not_end_a_file)
{
    struct wsd_job job = {.ops = &ops};
    const size_t most = 1024 * 1024, room = 2 * most;
    _cleanup_(freep) char *data = malloc(room);
    struct source source = {.job = &job, .fd = memfd_create("grown", MFD_CLOEXEC), .size = most};

    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(ftruncate(source.fd, (off_t)most + 3), 0);
    ck_assert_int_eq(source_read(&source, data, room), (int64_t)most + 3);
    source_close(&source);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins/common");
    TCase *tcase = tcase_create("common");

    tcase_add_loop_test(tcase, names_are_quoted_as_by_coreutils, 0, (int)ARRAY_SIZE(names));
    tcase_add_test(tcase, errors_have_words_with_either_sign);
    tcase_add_test(tcase, cache_makes_no_more_than_are_in_use);
    tcase_add_test(tcase, cache_frees_what_it_has_no_place_for);
    tcase_add_test(tcase, a_file_ends_where_it_said_and_a_read_was_short);
    tcase_add_test(tcase, a_file_is_read_on_where_its_size_says_nothing);
    tcase_add_test(tcase, a_full_read_does_not_end_a_file);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
