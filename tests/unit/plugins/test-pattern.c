/* SPDX-License-Identifier: Apache-2.0
 *
 * test-pattern.c: translation to REG_EXTENDED, and the bytes that every match has. */
#include "plugins/pattern.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
    const char *text, *source, *must;
    bool literal;
} patterns[] = {
    {"", "", "", true},
    {"abc", "abc", "abc", true},
    {"a\\.b", "a\\.b", "a.b", true},
    {"a.b", "a.b", "a", false},
    {"ab*", "ab*", "a", false},
    {"ab+", "ab+", "ab", false},
    {"ab+?", "ab*", "a", false}, /* the last operator makes it optional */
    {"a**", "a*", "", false},
    {"a++++", "a+", "a", false},
    {"a??", "a{0,1}", "", false},
    {"a?{3}", "a{0,3}", "", false},
    {"a+{3}", "a{3,}", "a", false},
    {"a{1,2}{1,2}{1,2}", "a{1,8}", "a", false},
    {"a{2,3}{2}", "a{4,6}", "a", false},
    {"a{2,3}{1,2}", "a{2,3}{1,2}", "a", false}, /* 2, 3, 4, 5 and 6, but not for all numbers */
    {"a{0}*", "a{0,0}", "", false},
    {"a{1,200}{1,200}", "a{1,200}{1,200}", "a", false}, /* beyond RE_DUP_MAX */
    {"a{2,1}+", "a{2,1}+", "a", false},
    {"a+{2,1}*", "a+{2,1}*", "", false},
    {"ab{0,2}c", "ab{0,2}c", "a", false},
    {"ab{2}cde", "ab{2}cde", "cde", false},
    {"ab|abc", "ab|abc", "", false},
    {"(ab|c)def", "(ab|c)def", "def", false},
    {"(abc)", "(abc)", "", false},
    {"[abc]de[]x]", "[abc]de[]x]", "de", false},
    {"[[:alpha:]]ab", "[[:alpha:]]ab", "ab", false},
    {"^abc$", "^abc$", "abc", false},
    {"^*abc", "abc", "abc", false},
    {"^+abc", "^abc", "abc", false},
    {"*abc", "abc", "abc", false},
    {"(*a)b", "(a)b", "b", false},
    {"x|*a", "x|a", "", false},
    {"a{x}", "a\\{x\\}", "a{x}", true},
    {"a{", "a\\{", "a{", true},
    {"{1}a", "a", "a", false},
    {"a)", "a\\)", "a)", true},
    {"\\<ab\\>", "\\<ab\\>", "ab", false},
    {"\\wab", "\\wab", "ab", false},
    {"(.)\\1abc", "(.)\\1abc", "abc", false},
};

START_TEST(pattern_is_translated)
{
    struct pattern pattern;

    ck_assert_int_eq(pattern_init(&pattern, patterns[_i].text, strlen(patterns[_i].text), false), 0);
    ck_assert_str_eq(pattern.source, patterns[_i].source);
    ck_assert_str_eq(pattern.must, patterns[_i].must);
    ck_assert_uint_eq(pattern.must_size, strlen(patterns[_i].must));
    ck_assert_int_eq(pattern.literal, patterns[_i].literal);
    pattern_deinit(&pattern);
}
END_TEST

START_TEST(folded_pattern_has_no_known_bytes)
{
    struct pattern pattern;

    ck_assert_int_eq(pattern_init(&pattern, "abc", 3, true), 0);
    ck_assert_uint_eq(pattern.must_size, 0);
    ck_assert(!pattern.literal);
    pattern_deinit(&pattern);
}
END_TEST

START_TEST(fixed_bytes_are_taken_as_they_are)
{
    struct pattern pattern;

    ck_assert_int_eq(pattern_init_fixed(&pattern, "a.(*\\<", 6, false), 0);
    ck_assert_str_eq(pattern.source, "a\\.\\(\\*\\\\<");
    ck_assert_str_eq(pattern.must, "a.(*\\<");
    ck_assert(pattern.literal);
    pattern_deinit(&pattern);
}
END_TEST

START_TEST(class_without_outer_brackets_is_refused)
{
    static const char *const refused[] = {"[:a:]", "[^:a:]", "x[:a:b:]", "[:[a:]"};
    static const char *const fine[] = {"[:]", "[::]", "[:a]", "[a:]", "[:a-z:]", "[:[:alpha:]:]", "[:a"};
    struct pattern pattern;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        ck_assert_int_eq(pattern_init(&pattern, refused[i], strlen(refused[i]), false), PATTERN_E_CLASS);
    for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
        ck_assert_int_eq(pattern_init(&pattern, fine[i], strlen(fine[i]), false), 0);
        pattern_deinit(&pattern);
    }
}
END_TEST

static int make_groups(unsigned depth)
{
    char text[2 * PATTERN_DEPTH_MAX + 4];
    struct pattern pattern;
    int r;

    memset(text, '(', depth);
    text[depth] = 'a';
    memset(text + depth + 1, ')', depth);
    r = pattern_init(&pattern, text, 2 * depth + 1, false);
    if (!r)
        pattern_deinit(&pattern);
    return r;
}

START_TEST(depth_is_limited)
{
    ck_assert_int_eq(make_groups(PATTERN_DEPTH_MAX), 0);
    ck_assert_int_eq(make_groups(PATTERN_DEPTH_MAX + 1), PATTERN_E_DEPTH);
}
END_TEST

static int make(const char *text)
{
    struct pattern pattern;
    int r = pattern_init(&pattern, text, strlen(text), false);

    if (!r)
        pattern_deinit(&pattern);
    return r;
}

START_TEST(what_repeats_add_is_limited)
{
    static const char *const large[] = {"a{20001}|b{20002}",
                                        "(((a{32767}){32767}){32767}){32767}",
                                        "((a{1,255}){1,255}){1,255}[[.space.]]",
                                        "((a{1,255}){1,255}){1,255}(",
                                        "((a{1,300}){1,300}){0}",
                                        "((ab){100}|c){300}",
                                        "(a{20001})+"};

    ck_assert_int_eq(make("a{20001}|b{20000}"), 0);
    ck_assert_int_eq(make("((ab){100}|c){100}"), 0);
    for (size_t i = 0; i < ARRAY_SIZE(large); i++)
        ck_assert_int_eq(make(large[i]), PATTERN_E_LARGE);
}
END_TEST

/* The C library's time grows with the square of it. */
START_TEST(what_may_match_nothing_is_counted)
{
    static const struct {
        const char *text;
        uint32_t empty;
    } rows[] = {
        {"abc", 0},
        {"a?b?c", 2},
        {"a?b?ca?", 2},
        {"(a?b?){100}", 200},
        {"(a|b?){100}", 100},
        {"(a?b?c){100}", 4}, /* a byte in each */
        {".{0,1000}x", 1000},
        {".{0,1001}x", 1001},
        {"a{1,500}", 499},
        {"(abc){0,500}", 500},
        {"()()()", 3},
        {"(x*)*y", 1},
        {"(a)\\1\\1", 2},
        {"^^^", 3 * PATTERN_ANCHOR_WEIGHT},
        {"(^)\\b", 2 * PATTERN_ANCHOR_WEIGHT},
        {"^a$|^b$|^c$", 2 * PATTERN_ANCHOR_WEIGHT}, /* of one and the next */
    };
    struct pattern pattern;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        ck_assert_int_eq(pattern_init(&pattern, rows[i].text, strlen(rows[i].text), false), 0);
        ck_assert_msg(pattern.empty == rows[i].empty, "%s: %u", rows[i].text, pattern.empty);
        pattern_deinit(&pattern);
    }
}
END_TEST

static int make_nested(unsigned depth)
{
    char text[3 * PATTERN_NESTED_MAX + 8];

    memset(text, '(', depth);
    sprintf(text + depth, "a");
    for (unsigned i = 0; i < depth; i++)
        strcat(text, ")*");
    return make(text);
}

START_TEST(repeats_in_repeats_are_limited)
{
    ck_assert_int_eq(make_nested(PATTERN_NESTED_MAX), 0);
    ck_assert_int_eq(make_nested(PATTERN_NESTED_MAX + 1), PATTERN_E_NESTED);
}
END_TEST

/* Each piece becomes \}{0,1}, which is more than twice as long. */
START_TEST(the_longest_translation_has_room)
{
    enum { PIECES = 1000 };
    char text[3 * PIECES + 1] = "";
    struct pattern pattern;

    for (unsigned i = 0; i < PIECES; i++)
        memcpy(text + 3 * i, "}??", 4);
    ck_assert_int_eq(pattern_init(&pattern, text, 3 * PIECES, false), 0);
    ck_assert_uint_eq(strlen(pattern.source), 7 * PIECES);
    pattern_deinit(&pattern);
}
END_TEST

START_TEST(any_bytes_make_a_pattern_without_overrun)
{
    static const char alphabet[] = "ab()[]{}*+?|^$\\.,1:-";
    unsigned seed = (unsigned)_i;

    for (unsigned round = 0; round < 20000; round++) {
        struct pattern pattern;
        size_t size = (size_t)rand_r(&seed) % 16;
        _cleanup_(freep) char *text = malloc(size + !size); /* exact, for the sanitizer */

        for (size_t i = 0; i < size; i++)
            text[i] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
        int r = pattern_init(&pattern, text, size, false);

        ck_assert(r == 0 || r == PATTERN_E_CLASS || r == PATTERN_E_LARGE);
        if (r == 0)
            pattern_deinit(&pattern);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins/pattern");
    TCase *tcase = tcase_create("pattern");

    tcase_add_loop_test(tcase, pattern_is_translated, 0, (int)ARRAY_SIZE(patterns));
    tcase_add_test(tcase, folded_pattern_has_no_known_bytes);
    tcase_add_test(tcase, fixed_bytes_are_taken_as_they_are);
    tcase_add_test(tcase, class_without_outer_brackets_is_refused);
    tcase_add_test(tcase, depth_is_limited);
    tcase_add_test(tcase, what_repeats_add_is_limited);
    tcase_add_test(tcase, repeats_in_repeats_are_limited);
    tcase_add_test(tcase, the_longest_translation_has_room);
    tcase_add_test(tcase, what_may_match_nothing_is_counted);
    tcase_add_loop_test(tcase, any_bytes_make_a_pattern_without_overrun, 0, 4);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
