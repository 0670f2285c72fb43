/* SPDX-License-Identifier: Apache-2.0
 *
 * test-loader.c: each way in which a plugin is refused, with its words, and the ways in which it is found. Every test
 * works in a directory of its own. */
#include "host/loader.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static char top[] = "/tmp/wsd-test-loader-XXXXXX";
static char dir_a[64], dir_b[64];
static char error[LOADER_ERROR];
static struct loader *loader;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(dir_a, sizeof(dir_a), "%s/a", top);
    snprintf(dir_b, sizeof(dir_b), "%s/b", top);
    ck_assert_int_eq(mkdir(dir_a, 0755), 0);
    ck_assert_int_eq(mkdir(dir_b, 0755), 0);
    ck_assert_int_eq(chdir(top), 0);
    umask(022);
}

static void teardown(void)
{
    loader = loader_free(loader);
    nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void copy(const char *name, const char *to)
{
    char command[4096];

    snprintf(command, sizeof(command), "cp '%s/%s.so' '%s' && chmod 755 '%s'", getenv("TEST_PLUGINS"), name, to, to);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
    close(fd);
}

static void make(unsigned flags, const char *directory)
{
    const char *const dirs[] = {dir_a, dir_b};

    loader_free(loader);
    ck_assert_int_eq(
        loader_new(&loader,
                   &(struct loader_options){.dirs = dirs, .n_dirs = 2, .flags = flags, .directory = directory}),
        0);
}

static struct host_plugin *loads(const char *name)
{
    struct host_plugin *p = NULL;
    int r = loader_load(loader, name, &p, error, sizeof(error));

    ck_assert_msg(r == 0, "%s: %s", name, error);
    return p;
}

static void refuses(const char *name, int errnum, const char *words)
{
    struct host_plugin *p = NULL;

    error[0] = 0;
    ck_assert_int_eq(loader_load(loader, name, &p, error, sizeof(error)), -errnum);
    ck_assert_msg(strstr(error, words) != NULL, "\"%s\" does not say \"%s\"", error, words);
    ck_assert_ptr_null(strchr(error, '\n'));
    ck_assert_ptr_null(p);
}

START_TEST(name_is_looked_up_in_the_directories_in_order)
{
    copy("echo", "b/echo.so");
    make(0, NULL);
    struct host_plugin *p = loads("echo");
    ck_assert_str_eq(p->name, "echo");
    ck_assert_ptr_eq(strstr(p->path, "/b/echo.so"), p->path + strlen(top));
    copy("upper", "a/echo.so");
    ck_assert_str_eq(loads("echo")->name, "upper");
    ck_assert_str_eq(loads("echo.so")->name, "upper");
}
END_TEST

START_TEST(same_bytes_are_one_plugin)
{
    copy("lifetime", "a/lifetime.so");
    copy("lifetime", "b/other.so");
    make(0, NULL);
    ck_assert_ptr_eq(loads("lifetime"), loads("other"));
    ck_assert_ptr_ne(loads("lifetime"), (copy("echo", "a/echo.so"), loads("echo")));
}
END_TEST

START_TEST(plugin_changed_on_disk_is_another_plugin)
{
    copy("echo", "a/x.so");
    make(0, NULL);
    struct host_plugin *before = loads("x");
    copy("upper", "a/x.so");
    struct host_plugin *after = loads("x");
    ck_assert_str_eq(before->name, "echo");
    ck_assert_str_eq(after->name, "upper");
    ck_assert_ptr_ne((void *)before->functions[0].run, (void *)after->functions[0].run);
}
END_TEST

START_TEST(loaded_code_is_a_sealed_copy)
{
    Dl_info info;

    copy("echo", "a/echo.so");
    make(0, NULL);
    struct host_plugin *p = loads("echo");
    ck_assert_int_ne(dladdr((void *)p->functions[0].run, &info), 0);
    ck_assert_msg(strncmp(info.dli_fname, "/proc/self/fd/", 14) == 0, "%s", info.dli_fname);
    int fd = atoi(info.dli_fname + 14);
    ck_assert_int_eq(fcntl(fd, F_GET_SEALS), F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}
END_TEST

START_TEST(local_loads_the_file_itself)
{
    Dl_info info;

    copy("echo", "echo.so");
    make(LOADER_ANY_PATH | LOADER_REAL_PATH, ".");
    struct host_plugin *p = loads("./echo.so");
    ck_assert_int_ne(dladdr((void *)p->functions[0].run, &info), 0);
    ck_assert_msg(strncmp(info.dli_fname, top, strlen(top)) == 0, "%s", info.dli_fname);
}
END_TEST

START_TEST(missing_name_tells_where_was_looked)
{
    make(0, NULL);
    refuses("nosuch", ENOENT, "not found in ");
    refuses("nosuch", ENOENT, dir_b);
    refuses("", ENOENT, "not found");
    refuses(".", ENOENT, "not found");
    refuses("..", ENOENT, "not found");
    char longest[5000];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    refuses(longest, ENOENT, "too long");
    longest[0] = '/';
    make(LOADER_ANY_PATH, NULL);
    refuses(longest, ENOENT, "too long");
}
END_TEST

START_TEST(name_that_only_the_working_directory_has_gets_a_hint)
{
    copy("echo", "mine.so");
    make(LOADER_ANY_PATH, ".");
    refuses("mine", ENOENT, "write ./mine.so");
    refuses("mine.so", ENOENT, "write ./mine.so");
    make(LOADER_ANY_PATH, NULL);
    refuses("mine", ENOENT, "not found in");
}
END_TEST

START_TEST(path_is_only_opened_where_any_path_is_allowed)
{
    char path[256];

    copy("echo", "mine.so");
    snprintf(path, sizeof(path), "%s/mine.so", top);
    make(0, NULL);
    refuses(path, EACCES, "plugin directories only");
    refuses("./mine.so", EACCES, "plugin directories only");
    refuses("/etc/shadow", EACCES, "plugin directories only");
    make(LOADER_ANY_PATH, NULL);
    ck_assert_str_eq(loads(path)->path, path);
    refuses("./mine.so", ENOENT, "not an absolute path");
    make(LOADER_ANY_PATH, top);
    loads("./mine.so");
    refuses("./nosuch.so", ENOENT, "no such file");
    refuses("./mine.so/x", ENOENT, "no such file");
}
END_TEST

START_TEST(path_into_a_plugin_directory_is_a_name)
{
    char path[256];

    copy("echo", "a/echo.so");
    make(0, NULL);
    snprintf(path, sizeof(path), "%s/echo.so", dir_a);
    ck_assert_str_eq(loads(path)->name, "echo");
    snprintf(path, sizeof(path), "%s/../a/echo.so", dir_a);
    refuses(path, EACCES, "plugin directories only");
}
END_TEST

START_TEST(file_that_others_could_have_written_is_not_permitted)
{
    copy("echo", "a/echo.so");
    make(0, NULL);
    chmod("a/echo.so", 0775);
    refuses("echo", EACCES, "could have written the file");
    chmod("a/echo.so", 0757);
    refuses("echo", EACCES, "could have written the file");
    chmod("a/echo.so", 0755);
    chmod("a", 0777);
    refuses("echo", EACCES, "could write to");
    chmod("a", 0775);
    refuses("echo", EACCES, "could write to");
    chmod("a", 0755);
    loads("echo");
    /* a user's own wsd may load what it likes */
    chmod("a/echo.so", 0777);
    make(LOADER_ANY_PATH, NULL);
    loads("echo");
}
END_TEST

START_TEST(file_of_another_owner_is_not_permitted)
{
    if (geteuid() != 0)
        return; /* only root can give files away */
    copy("echo", "a/echo.so");
    make(0, NULL);
    ck_assert_int_eq(chown("a/echo.so", 65534, 0), 0);
    refuses("echo", EACCES, "could have written the file");
    ck_assert_int_eq(chown("a/echo.so", 0, 0), 0);
    ck_assert_int_eq(chown("a", 65534, 0), 0);
    refuses("echo", EACCES, "could write to");
}
END_TEST

START_TEST(unreadable_file_is_not_permitted)
{
    copy("echo", "a/echo.so");
    chmod("a/echo.so", 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(top, 0755), 0);
        ck_assert_int_eq(seteuid(65534), 0);
    }
    make(LOADER_ANY_PATH, NULL);
    refuses("echo", EACCES, "Permission denied");
    char path[256];
    snprintf(path, sizeof(path), "%s/echo.so", dir_a);
    refuses(path, EACCES, "Permission denied");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(what_is_no_regular_file_is_no_plugin)
{
    ck_assert_int_eq(mkdir("a/dir.so", 0755), 0);
    ck_assert_int_eq(mkfifo("a/fifo.so", 0644), 0);
    make(0, NULL);
    refuses("dir", ENOEXEC, "it is a directory");
    refuses("fifo", ENOEXEC, "not a regular file");
    make(LOADER_ANY_PATH, NULL);
    refuses("/dev/null", ENOEXEC, "not a regular file");
    refuses("/tmp", ENOEXEC, "it is a directory");
}
END_TEST

START_TEST(what_is_no_plugin_is_never_loaded)
{
    put("a/text.so", "#!/bin/sh\necho hello\n");
    put("a/empty.so", "");
    copy("not-a-plugin", "a/other.so");
    make(0, NULL);
    refuses("text", ENOEXEC, "not a plugin: not a shared object");
    refuses("empty", ENOEXEC, "not a plugin: not a shared object");
    refuses("other", ENOEXEC, "not a plugin: it has no WSD_PLUGIN() descriptor");
}
END_TEST

START_TEST(damaged_file_is_never_loaded)
{
    copy("echo", "a/echo.so");
    ck_assert_int_eq(truncate("a/echo.so", 5000), 0);
    make(0, NULL);
    refuses("echo", ENOEXEC, "damaged or cut off");
}
END_TEST

START_TEST(plugin_of_another_abi_is_never_loaded)
{
    copy("wrong-abi", "a/wrong-abi.so");
    make(0, NULL);
    refuses("wrong-abi", ENOEXEC, "built for plugin ABI 7, this wsd has 1 to 1: rebuild it with");
}
END_TEST

START_TEST(words_of_the_dynamic_loader_are_told)
{
    copy("unresolved", "a/unresolved.so");
    make(0, NULL);
    refuses("unresolved", ELIBBAD, "nobody_has_this_function");
    ck_assert_ptr_null(strstr(error, "/proc/self/fd"));
}
END_TEST

START_TEST(failed_init_fails_the_load)
{
    copy("bad-init", "a/bad-init.so");
    make(0, NULL);
    refuses("bad-init", ELIBBAD, "its init failed with 3");
    refuses("bad-init", ELIBBAD, "its init failed with 3");
    /* what failed is still mapped, and must not be taken for the next one */
    copy("echo", "a/echo.so");
    ck_assert_str_eq(loads("echo")->name, "echo");
}
END_TEST

START_TEST(fini_runs_once_at_the_end)
{
    char text[64] = "";

    setenv("LIFETIME_FILE", "fini", 1);
    copy("lifetime", "a/lifetime.so");
    make(0, NULL);
    loads("lifetime");
    loads("lifetime");
    ck_assert_int_ne(access("fini", F_OK), 0);
    loader_fini(loader);
    loader = loader_free(loader);
    int fd = open("fini", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(read(fd, text, sizeof(text)), 5);
    ck_assert_str_eq(text, "fini\n");
    close(fd);
}
END_TEST

START_TEST(too_many_directories_are_refused)
{
    const char *dirs[LOADER_DIRS_MAX + 1];

    for (size_t i = 0; i <= LOADER_DIRS_MAX; i++)
        dirs[i] = "/nosuch";
    ck_assert_int_eq(loader_new(&loader, &(struct loader_options){.dirs = dirs, .n_dirs = LOADER_DIRS_MAX + 1}),
                     -EINVAL);
    ck_assert_int_eq(loader_new(&loader, &(struct loader_options){.dirs = dirs, .n_dirs = LOADER_DIRS_MAX}), 0);
    refuses("x", ENOENT, "not found in /nosuch:");
    loader = loader_free(loader);
    ck_assert_int_eq(loader_new(&loader, &(struct loader_options){0}), 0);
    refuses("x", ENOENT, "no plugin directory");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host/loader");
    TCase *t = tcase_create("loader");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, name_is_looked_up_in_the_directories_in_order);
    tcase_add_test(t, same_bytes_are_one_plugin);
    tcase_add_test(t, plugin_changed_on_disk_is_another_plugin);
    tcase_add_test(t, loaded_code_is_a_sealed_copy);
    tcase_add_test(t, local_loads_the_file_itself);
    tcase_add_test(t, missing_name_tells_where_was_looked);
    tcase_add_test(t, name_that_only_the_working_directory_has_gets_a_hint);
    tcase_add_test(t, path_is_only_opened_where_any_path_is_allowed);
    tcase_add_test(t, path_into_a_plugin_directory_is_a_name);
    tcase_add_test(t, file_that_others_could_have_written_is_not_permitted);
    tcase_add_test(t, file_of_another_owner_is_not_permitted);
    tcase_add_test(t, unreadable_file_is_not_permitted);
    tcase_add_test(t, what_is_no_regular_file_is_no_plugin);
    tcase_add_test(t, what_is_no_plugin_is_never_loaded);
    tcase_add_test(t, damaged_file_is_never_loaded);
    tcase_add_test(t, plugin_of_another_abi_is_never_loaded);
    tcase_add_test(t, words_of_the_dynamic_loader_are_told);
    tcase_add_test(t, failed_init_fails_the_load);
    tcase_add_test(t, fini_runs_once_at_the_end);
    tcase_add_test(t, too_many_directories_are_refused);
    suite_add_tcase(s, t);
    return run_suite(s);
}
