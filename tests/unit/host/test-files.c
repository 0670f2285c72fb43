/* SPDX-License-Identifier: Apache-2.0
 *
 * test-files.c: what a job may open: regular files and folders, wherever links lead; and what is never opened. */
#include "host/files.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

static char top[] = "/tmp/wsd-test-files-XXXXXX";

static off_t claimed_size;      /* not 0: what fstatat() says of each */
static void (*meanwhile)(void); /* what happens behind the next fstatat() */

/* In place of libc's: what files_open() sees, and what others do before it goes on. */
int fstatat(int at, const char *path, struct stat *st, int flags)
{
    long r = syscall(SYS_newfstatat, at, path, st, flags);

    if (claimed_size)
        st->st_size = claimed_size;
    if (meanwhile)
        TAKE(meanwhile)();
    return (int)r;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

static void enter(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(chdir(top), 0);
    put("file", "text");
    put("none", "");
    ck_assert_int_eq(mkdir("folder", 0700), 0);
    put("folder/inside", "inside");
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    ck_assert_int_eq(symlink("file", "to-file"), 0);
    ck_assert_int_eq(symlink("folder", "to-folder"), 0);
    ck_assert_int_eq(symlink("fifo", "to-fifo"), 0);
    ck_assert_int_eq(symlink("/dev/null", "to-device"), 0);
}

static void leave(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", top);
    ck_assert_int_eq(system(command), 0);
}

/* Opens it and compares the first bytes. */
static void reads(const char *directory, const char *path, const char *text)
{
    _cleanup_(close_fdp) int fd = files_open(directory, path);
    char found[16] = "";

    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(-fd));
    ck_assert_int_eq(read(fd, found, strlen(text)), (ssize_t)strlen(text));
    ck_assert_str_eq(found, text);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
}

START_TEST(files_are_found_by_each_way)
{
    char whole[64];

    snprintf(whole, sizeof(whole), "%s/file", top);
    reads(NULL, "file", "text");
    reads(NULL, whole, "text");
    reads("/nowhere", whole, "text");
    reads(top, "file", "text");
    reads("folder", "inside", "inside");
    reads("folder", "../file", "text");
    reads(NULL, "none", "");
    reads(NULL, "to-file", "text");
    reads(NULL, "to-folder/inside", "inside");
    reads("to-folder", "inside", "inside");
}
END_TEST

START_TEST(folders_are_opened)
{
    static const char *const names[] = {"folder", "to-folder", "."};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        _cleanup_(close_fdp) int fd = files_open(top, names[i]);
        struct stat st;

        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert(S_ISDIR(st.st_mode));
    }
}
END_TEST

START_TEST(errors_are_those_of_open)
{
    ck_assert_int_eq(files_open(NULL, "missing"), -ENOENT);
    ck_assert_int_eq(files_open(top, "missing"), -ENOENT);
    ck_assert_int_eq(files_open("/nowhere", "file"), -ENOENT);
    ck_assert_int_eq(files_open("folder/inside", "file"), -ENOTDIR);
    ck_assert_int_eq(files_open(NULL, ""), -ENOENT);
    ck_assert_int_eq(files_open(top, ""), -ENOENT);
}
END_TEST

/* Together they are longer than a path may be. */
START_TEST(long_names_go_in_two_steps)
{
    char directory[PATH_MAX] = "", path[PATH_MAX] = "";

    while (strlen(directory) < PATH_MAX / 2)
        strcat(directory, "folder/../");
    while (strlen(path) < PATH_MAX / 2)
        strcat(path, "./");
    strcat(path, "file");
    reads(directory, path, "text");
    path[strlen(path) - strlen("file")] = 0;
    strcat(path, "missing");
    ck_assert_int_eq(files_open(directory, path), -ENOENT);
}
END_TEST

/* What has no bytes may be a file of the kernel's, whose reads may wait. */
START_TEST(files_without_bytes_are_opened_as_ever)
{
    static const char *const names[] = {"none", "/proc/version"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        _cleanup_(close_fdp) int fd = files_open(NULL, names[i]);

        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    }
}
END_TEST

/* Returns how many of these events there were. */
static int count_events(int watch)
{
    union {
        struct inotify_event event;
        char bytes[4096];
    } room;
    ssize_t size = read(watch, &room, sizeof(room));

    return size < 0 ? 0 : (int)((size_t)size / sizeof(struct inotify_event));
}

static int watch_opens(const char *name)
{
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    ck_assert_int_ge(watch, 0);
    ck_assert_int_ge(inotify_add_watch(watch, name, IN_OPEN), 0);
    return watch;
}

START_TEST(what_is_no_file_is_not_opened)
{
    _cleanup_(close_fdp) int watch = watch_opens("fifo");

    ck_assert_int_eq(files_open(NULL, "fifo"), -ENXIO);
    ck_assert_int_eq(files_open(top, "to-fifo"), -ENXIO);
    ck_assert_int_eq(files_open(NULL, "/dev/null"), -ENXIO);
    ck_assert_int_eq(files_open(NULL, "to-device"), -ENXIO);
    ck_assert_int_eq(count_events(watch), 0);
    close_fd(open("fifo", O_RDONLY | O_NONBLOCK));
    ck_assert_int_eq(count_events(watch), 1);
}
END_TEST

START_TEST(a_fifo_that_says_to_have_bytes_is_not_opened)
{
    _cleanup_(close_fdp) int watch = watch_opens("fifo");

    claimed_size = 5;
    ck_assert_int_eq(files_open(NULL, "fifo"), -ENXIO);
    ck_assert_int_eq(files_open(top, "fifo"), -ENXIO);
    ck_assert_int_eq(count_events(watch), 0);
}
END_TEST

static void put_fifo(void)
{
    ck_assert_int_eq(rename("fifo", "file"), 0);
}

static void put_link(void)
{
    ck_assert_int_eq(rename("to-fifo", "file"), 0);
}

static void put_other_file(void)
{
    put("other", "else");
    ck_assert_int_eq(rename("other", "file"), 0);
}

START_TEST(a_fifo_that_takes_the_place_is_not_kept)
{
    meanwhile = put_fifo;
    ck_assert_int_eq(files_open(NULL, "file"), -ENXIO);
    ck_assert_ptr_null(meanwhile);
}
END_TEST

START_TEST(a_link_that_takes_the_place_is_not_followed_unseen)
{
    _cleanup_(close_fdp) int watch = watch_opens("fifo");

    meanwhile = put_link;
    ck_assert_int_eq(files_open(top, "file"), -ENXIO);
    ck_assert_ptr_null(meanwhile);
    ck_assert_int_eq(count_events(watch), 0);
}
END_TEST

START_TEST(a_file_that_takes_the_place_is_opened)
{
    meanwhile = put_other_file;
    reads(NULL, "file", "else");
    ck_assert_ptr_null(meanwhile);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host/files");
    TCase *tcase = tcase_create("files");

    tcase_add_checked_fixture(tcase, enter, leave);
    tcase_add_test(tcase, files_are_found_by_each_way);
    tcase_add_test(tcase, folders_are_opened);
    tcase_add_test(tcase, errors_are_those_of_open);
    tcase_add_test(tcase, long_names_go_in_two_steps);
    tcase_add_test(tcase, files_without_bytes_are_opened_as_ever);
    tcase_add_test(tcase, what_is_no_file_is_not_opened);
    tcase_add_test(tcase, a_fifo_that_says_to_have_bytes_is_not_opened);
    tcase_add_test(tcase, a_fifo_that_takes_the_place_is_not_kept);
    tcase_add_test(tcase, a_link_that_takes_the_place_is_not_followed_unseen);
    tcase_add_test(tcase, a_file_that_takes_the_place_is_opened);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
