/* SPDX-License-Identifier: Apache-2.0
 *
 * test-plugin.c: each promise of a descriptor is held against it, and strides of older and newer headers are honoured.
 */
#include "host/plugin.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    return 0;
}

static struct wsd_function functions[65];
static struct wsd_plugin good;
static char error[512];

static void setup(void)
{
    static char names[65][8];

    for (int i = 0; i < 65; i++) {
        snprintf(names[i], sizeof(names[i]), "f%d", i);
        functions[i] = (struct wsd_function){.name = names[i], .help = "helps", .flags = (uint64_t)i, .run = run};
    }
    good = (struct wsd_plugin){.size = sizeof(good),
                               .abi = WSD_PLUGIN_ABI,
                               .function_size = sizeof(struct wsd_function),
                               .n_functions = 3,
                               .functions = functions,
                               .name = "good",
                               .version = "1.0",
                               .help = "one line"};
    error[0] = 0;
}

static int load(void)
{
    struct host_plugin *p = NULL;
    int r = plugin_new(&p, &good, error, sizeof(error));

    ck_assert(r == 0 ? p && !*error : !p && *error);
    plugin_free(p);
    return r;
}

#define REFUSED(words)                                                                                                 \
    do {                                                                                                               \
        ck_assert_int_eq(load(), -ELIBBAD);                                                                            \
        ck_assert_msg(strstr(error, words) != NULL, "\"%s\" does not say \"%s\"", error, words);                       \
    } while (0)

START_TEST(good_descriptor_is_copied)
{
    struct host_plugin *p;

    ck_assert_int_eq(plugin_new(&p, &good, error, sizeof(error)), 0);
    ck_assert_str_eq(p->name, "good");
    ck_assert_str_eq(p->version, "1.0");
    ck_assert_str_eq(p->help, "one line");
    ck_assert_uint_eq(p->n_functions, 3);
    ck_assert_str_eq(p->functions[2].name, "f2");
    ck_assert_uint_eq(p->functions[2].flags, 2);
    ck_assert_ptr_eq((void *)p->functions[2].run, (void *)run);
    plugin_free(p);
}
END_TEST

START_TEST(another_abi_is_refused_with_advice)
{
    good.abi = 7;
    ck_assert_int_eq(load(), -ENOEXEC);
    ck_assert_ptr_nonnull(strstr(error, "ABI 7, this wsd has 1 to 1"));
    ck_assert_ptr_nonnull(strstr(error, "rebuild"));
    good.abi = 0; /* was not final */
    ck_assert_int_eq(load(), -ENOEXEC);
    good.abi = WSD_PLUGIN_ABI + 1;
    ck_assert_int_eq(load(), -ENOEXEC);
    for (good.abi = 1; good.abi <= WSD_PLUGIN_ABI; good.abi++)
        ck_assert_int_eq((error[0] = 0, load()), 0);
}
END_TEST

START_TEST(sizes_are_checked)
{
    good.size = 8;
    REFUSED("size is 8");
    good.size = UINT32_MAX;
    REFUSED("size is");
    good.size = sizeof(good);
    good.function_size = 8;
    REFUSED("function_size is 8");
    good.function_size = UINT32_MAX;
    REFUSED("function_size");
}
END_TEST

static void hook(uint32_t worker)
{
}

START_TEST(hooks_are_read_where_the_size_covers_them)
{
    struct host_plugin *p;

    good.worker_start = hook;
    good.worker_stop = hook;
    ck_assert_int_eq(plugin_new(&p, &good, error, sizeof(error)), 0);
    ck_assert(p->worker_start == hook && p->worker_stop == hook);
    ck_assert(p->functions[0].has_hooks && p->functions[2].has_hooks);
    plugin_free(p);
    good.size = offsetof(struct wsd_plugin, worker_stop); /* built when there was no worker_stop */
    ck_assert_int_eq(plugin_new(&p, &good, error, sizeof(error)), 0);
    ck_assert(p->worker_start == hook && !p->worker_stop && p->functions[0].has_hooks);
    plugin_free(p);
    good.size = offsetof(struct wsd_plugin, worker_start); /* nor either of them */
    ck_assert_int_eq(plugin_new(&p, &good, error, sizeof(error)), 0);
    ck_assert(!p->worker_start && !p->worker_stop && !p->functions[0].has_hooks);
    plugin_free(p);
}
END_TEST

START_TEST(one_to_64_functions)
{
    good.n_functions = 0;
    REFUSED("it has 0 functions");
    good.n_functions = 65;
    REFUSED("it has 65 functions");
    good.n_functions = UINT32_MAX;
    REFUSED("functions, not 1 to 64");
    good.n_functions = 64;
    ck_assert_int_eq((*error = 0, load()), 0);
    good.functions = NULL;
    REFUSED("it has 0 functions");
}
END_TEST

START_TEST(names_are_short_and_plain)
{
    static const char *const bad[] = {
        NULL,  "",         "a b", "a/b",
        "a.b", "\xc3\xa4", "a\n", "0123456789012345678901234567890123456789012345678901234567890123"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        good.name = bad[i];
        REFUSED("the plugin's name");
    }
    good.name = "012345678901234567890123456789012345678901234567890123456789-_Z";
    ck_assert_int_eq((*error = 0, load()), 0);
    functions[1].name = "a b";
    REFUSED("name of function 2");
    functions[1].name = "f0";
    REFUSED("two functions are called f0");
}
END_TEST

START_TEST(help_and_version_are_lines_and_run_is_there)
{
    char longest[257];

    memset(longest, 'x', 256);
    longest[256] = 0;
    good.help = NULL;
    REFUSED("the plugin's help");
    good.help = "two\nlines";
    REFUSED("the plugin's help");
    good.help = longest;
    REFUSED("the plugin's help");
    longest[255] = 0;
    ck_assert_int_eq((*error = 0, load()), 0);
    good.version = NULL;
    REFUSED("the version");
    good.version = "1";
    functions[2].help = "\033[31m";
    REFUSED("help of function f2");
    functions[2].help = "";
    functions[2].run = NULL;
    REFUSED("function f2 has no run");
}
END_TEST

START_TEST(longer_structures_of_newer_headers_are_strided)
{
    struct newer {
        struct wsd_function f;
        uint64_t more[3];
    } newer[2] = {{.f = functions[5]}, {.f = functions[6]}};
    struct host_plugin *p;

    good.functions = &newer[0].f;
    good.n_functions = 2;
    good.function_size = sizeof(struct newer);
    ck_assert_int_eq(plugin_new(&p, &good, error, sizeof(error)), 0);
    ck_assert_str_eq(p->functions[1].name, "f6");
    plugin_free(p);
    newer[1].more[2] = UINT64_C(1) << 63;
    ck_assert_int_eq(load(), -ENOEXEC);
    ck_assert_ptr_nonnull(strstr(error, "function 2"));
    ck_assert_ptr_nonnull(strstr(error, "install a newer wsd"));
}
END_TEST

START_TEST(a_newer_descriptor_sets_nothing_that_would_be_ignored)
{
    struct newer {
        struct wsd_plugin p;
        unsigned char more[16];
    } newer = {.p = good};
    struct host_plugin *p;

    newer.p.size = sizeof(newer);
    ck_assert_int_eq(plugin_new(&p, &newer.p, error, sizeof(error)), 0);
    ck_assert_str_eq(p->name, "good");
    plugin_free(p);
    for (size_t i = 0; i < sizeof(newer.more); i++) {
        memset(newer.more, 0, sizeof(newer.more));
        newer.more[i] = 1;
        ck_assert_int_eq(plugin_new(&p, &newer.p, error, sizeof(error)), -ENOEXEC);
        ck_assert_ptr_nonnull(strstr(error, "its descriptor sets something"));
    }
}
END_TEST

START_TEST(function_is_found_by_name_or_default)
{
    struct host_plugin *p;
    uint32_t index = 99;

    ck_assert_int_eq(plugin_new(&p, &good, error, sizeof(error)), 0);
    ck_assert_str_eq(plugin_find(p, "f2", &index)->name, "f2");
    ck_assert_uint_eq(index, 2);
    ck_assert_str_eq(plugin_find(p, NULL, &index)->name, "f0");
    ck_assert_ptr_null(plugin_find(p, "f9", NULL));
    plugin_free(p);
    functions[1].name = "good";
    ck_assert_int_eq(plugin_new(&p, &good, error, sizeof(error)), 0);
    ck_assert_str_eq(plugin_find(p, "", &index)->name, "good");
    ck_assert_uint_eq(index, 1);
    plugin_free(p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("host/plugin");
    TCase *t = tcase_create("plugin");

    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, good_descriptor_is_copied);
    tcase_add_test(t, another_abi_is_refused_with_advice);
    tcase_add_test(t, sizes_are_checked);
    tcase_add_test(t, hooks_are_read_where_the_size_covers_them);
    tcase_add_test(t, one_to_64_functions);
    tcase_add_test(t, names_are_short_and_plain);
    tcase_add_test(t, help_and_version_are_lines_and_run_is_there);
    tcase_add_test(t, longer_structures_of_newer_headers_are_strided);
    tcase_add_test(t, a_newer_descriptor_sets_nothing_that_would_be_ignored);
    tcase_add_test(t, function_is_found_by_name_or_default);
    suite_add_tcase(s, t);
    return run_suite(s);
}
