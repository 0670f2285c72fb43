/* SPDX-License-Identifier: Apache-2.0
 *
 * test-demangle.c: names of C++ in the text of a hostile executor. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/demangle.h"
#include "tests/unit/suite.h"

static struct demangle names;
static bool had_library; /* a sanitizer brings it */

static bool has_library(void)
{
    return dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
}

static void setup(void)
{
    had_library = has_library();
}

static void teardown(void)
{
    demangle_deinit(&names);
}

static void becomes(const char *text, const char *wanted)
{
    struct buffer shown = {0};

    ck_assert_int_eq(demangle_put(&names, text, &shown), 0);
    ck_assert_int_eq(buffer_put(&shown, "", 1), 0);
    ck_assert_str_eq((const char *)buffer_data(&shown), wanted);
    buffer_deinit(&shown);
}

static void note(const char *text)
{
    ck_assert_int_eq(demangle_note(&names, text), 0);
}

/* Alone. */
static void is_shown(const char *text, const char *wanted)
{
    note(text);
    demangle_run(&names);
    becomes(text, wanted);
    demangle_deinit(&names);
}

START_TEST(names_are_shown_as_people_write_them)
{
    is_shown("_ZN4moon3fibEl", "moon::fib(long)");
    is_shown("#0 _ZN4moon3fibEl+0x12 in moon+0x1012\n#1 work+0x3 in moon+0x9\n#2 _ZL4findi+0x1 in moon+0x8\n",
             "#0 moon::fib(long)+0x12 in moon+0x1012\n#1 work+0x3 in moon+0x9\n#2 find(int)+0x1 in moon+0x8\n");
    is_shown("moon:fib\1_ZN4moon3fibEl\1_ZN4moon3fibEl.part.0",
             "moon:fib\1moon::fib(long)\1moon::fib(long) [clone .part.0]");
    is_shown("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)");
}
END_TEST

START_TEST(what_is_no_name_stays)
{
    static const char *const same[] = {"",         "_Z",           "work",         "x_ZN4moon3fibEl", "_ZN4moon3fib",
                                       "_Z999foo", "[_] _",        "_Z_Z_Z",       "_ZN4moon",        "_Zebra",
                                       "1_Z3foov", "_R3foo4moon3", "_Z3f?ov+0x12", "$_Z3foov"};

    for (size_t i = 0; i < ARRAY_SIZE(same); i++)
        is_shown(same[i], same[i]);
}
END_TEST

START_TEST(no_process_begins_where_there_is_no_name)
{
    note("#0 work+0x3 in moon+0x9\n");
    demangle_run(&names);
    ck_assert(!demangle_has(&names));
    ck_assert_ptr_null(names.texts);
    ck_assert(has_library() == had_library);
}
END_TEST

START_TEST(this_process_does_not_load_the_library)
{
    is_shown("_Z3foov", "foo()");
    ck_assert(has_library() == had_library);
}
END_TEST

/* A function with a name of n letters. */
static char *long_name(size_t n)
{
    char letters[DEMANGLE_MAX], *text;

    ck_assert_uint_le(n, sizeof(letters));
    memset(letters, 'a', sizeof(letters));
    ck_assert_int_gt(asprintf(&text, "_Z%zu%.*sv", n, (int)n, letters), 0);
    return text;
}

START_TEST(a_name_becomes_no_longer_than_it_may)
{
    for (size_t n = DEMANGLE_MAX - 4; n <= DEMANGLE_MAX - 1; n++) { /* with () and NUL */
        char *text = long_name(n);

        note(text);
        demangle_run(&names);
        ck_assert_msg(demangle_has(&names) == (n + 3 <= DEMANGLE_MAX), "with %zu letters", n);
        demangle_deinit(&names);
        free(text);
    }
}
END_TEST

START_TEST(a_name_that_is_too_long_is_not_looked_at)
{
    for (size_t n = DEMANGLE_FROM - 1; n <= DEMANGLE_FROM + 1; n++) {
        char text[DEMANGLE_FROM + 2] = "_Z";

        memset(text + 2, '0', n - 7);
        strcpy(text + n - 5, "3foov");
        ck_assert_uint_eq(strlen(text), n);
        is_shown(text, n <= DEMANGLE_FROM ? "foo()" : text);
    }
}
END_TEST

START_TEST(no_more_names_are_taken_than_there_may_be)
{
    char text[32];

    for (size_t i = 0; i <= DEMANGLE_NAMES; i++) {
        snprintf(text, sizeof(text), "_Z6f%05zxv", i);
        note(text);
        note(text);
        ck_assert_uint_eq(names.n, i < DEMANGLE_NAMES ? i + 1 : DEMANGLE_NAMES);
    }
    becomes(text, text);
}
END_TEST

/* Each type has the one before twice: what it stands for doubles with each. */
static void doubling(char *text, size_t size, unsigned levels)
{
    size_t n = (size_t)snprintf(text, size, "_Z1f1aIiiE");

    for (unsigned i = 0; i < levels; i++) {
        char last[8] = "0";

        if (2 * i > 0)
            snprintf(last, sizeof(last), "%c%c", 2 * i >= 36 ? (int)('0' + 2 * i / 36) : ' ',
                     "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[2 * i % 36]);
        const char *number = last[0] == ' ' ? last + 1 : last;
        n += (size_t)snprintf(text + n, size - n, "1bIS%s_S%s_E", number, number);
    }
}

static void stays_beside_another(const char *text)
{
    note("_Z3foov");
    note(text);
    demangle_run(&names);
    becomes("_Z3foov", "foo()");
    becomes(text, text);
    demangle_deinit(&names);
}

START_TEST(a_name_that_stands_for_gigabytes_costs_little)
{
    static const unsigned levels[] = {6, 12, 20, 40}; /* 2 KiB, 140 KiB, 40 MiB, 40 TiB */
    char text[1024];

    doubling(text, sizeof(text), 2);
    is_shown(text, "f(a<int, int>, b<a<int, int>, a<int, int> >, "
                   "b<b<a<int, int>, a<int, int> >, b<a<int, int>, a<int, int> > >)");
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        doubling(text, sizeof(text), levels[i]);
        stays_beside_another(text);
    }
}
END_TEST

START_TEST(nor_does_one_that_is_nested_deeply)
{
    static const char *const beginnings[] = {"_Z1fP",  "_Z1fIX", "_ZN1a",    "_Z1fF",
                                             "_Z1fDp", "_ZcvT_", "_Z1fDTcl", "_ZZ"};
    char text[DEMANGLE_FROM + 1];

    for (size_t i = 0; i < ARRAY_SIZE(beginnings); i++) {
        const char *again = beginnings[i] + 2;
        size_t n = (size_t)snprintf(text, sizeof(text), "%s", beginnings[i]);

        while (n + strlen(again) < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", again);
        stays_beside_another(text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("demangle");
    TCase *tcase = tcase_create("all");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, names_are_shown_as_people_write_them);
    tcase_add_test(tcase, what_is_no_name_stays);
    tcase_add_test(tcase, no_process_begins_where_there_is_no_name);
    tcase_add_test(tcase, this_process_does_not_load_the_library);
    tcase_add_test(tcase, a_name_becomes_no_longer_than_it_may);
    tcase_add_test(tcase, a_name_that_is_too_long_is_not_looked_at);
    tcase_add_test(tcase, no_more_names_are_taken_than_there_may_be);
    tcase_add_test(tcase, a_name_that_stands_for_gigabytes_costs_little);
    tcase_add_test(tcase, nor_does_one_that_is_nested_deeply);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
