/* SPDX-License-Identifier: Apache-2.0
 *
 * test-common.c: names as coreutils 9.1 prints them in messages under LC_ALL=C, numbers, and the cache. */
#include "plugins/common.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

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

int main(void)
{
    Suite *suite = suite_create("plugins/common");
    TCase *tcase = tcase_create("common");

    tcase_add_loop_test(tcase, names_are_quoted_as_by_coreutils, 0, (int)ARRAY_SIZE(names));
    tcase_add_test(tcase, errors_have_words_with_either_sign);
    tcase_add_test(tcase, cache_makes_no_more_than_are_in_use);
    tcase_add_test(tcase, cache_frees_what_it_has_no_place_for);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
