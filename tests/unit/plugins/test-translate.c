/* SPDX-License-Identifier: Apache-2.0
 *
 * test-translate.c: the words for hyperscan, and what is known of a pattern. */
#include "plugins/translate.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
    const char *source, *texts; /* with spaces between */
    bool fold, words, exact, always;
} patterns[] = {
    {"", "", .exact = true, .always = true},
    {"abc", "abc", .exact = true},
    {"a\\.b-", "a\\x2eb\\x2d", .exact = true},
    {"ab|c", "ab c", .exact = true},
    {"(ab|c)d", "(?:ab|c)d", .exact = true},
    {"a.b", "a.b", .exact = true},
    {"ab*c", "ab*c", .exact = true},
    {"a+?", "(?:a+){0,1}", .exact = true, .always = true},
    {"a**", "(?:a*)*", .exact = true, .always = true},
    {"a{2}", "a{2,2}", .exact = true},
    {"a{2,}", "a{2,}", .exact = true},
    {"a{,2}", "a{0,2}", .exact = true, .always = true},
    {"ba{,}", "ba*", .exact = true},
    {"ba{0}c", "b(?:)c", .exact = true},
    {"^ab$", "^ab$", .exact = true},
    {"[abc]", "[a-c]", .exact = true},
    {"[^a]", "[^\\x0aa]", .exact = true},
    {"[]a]", "[\\x5da]", .exact = true},
    {"[a-]", "[\\x2da]", .exact = true},
    {"[[:digit:]_]", "[0-9\\x5f]", .exact = true},
    {"[[=a=]]", "[a]", .exact = true},
    {"[[.-.]-0]", "[\\x2d-0]", .exact = true},
    {"[[:space:]]", "[\\x09\\x0b-\\x0d\\x20]", .exact = true}, /* never a newline */
    {"\\w\\W", "[0-9A-Z\\x5fa-z][^\\x0a0-9A-Z\\x5fa-z]", .exact = true},
    {"[a-c]", "[A-Ca-c]", .fold = true, .exact = true},
    {"[^a]", "[^\\x0aAa]", .fold = true, .exact = true},
    {"a\\b\\B", "a\\b\\B", .exact = true},
    {"\\<ab\\>", "\\bab\\b", .exact = true},
    {"\\<[a-z]+\\>", "\\b[a-z]+\\b", .exact = true},
    {"\\<.", "\\b."}, /* \b is more than \< there */
    {".\\>", ".\\b"},
    {"a*\\>", "a*\\b"},
    {"\\<", "\\b"},
    {"(a)\\1", "(?:a).*"}, /* wider */
    {"ab", "\\b(?:ab)\\b", .words = true, .exact = true},
    {"-b", "(?:^|[^0-9A-Za-z_\\x0a])(?:\\x2db)(?:$|[^0-9A-Za-z_\\x0a])", .words = true, .exact = true},
    {"a*", "(?:^|[^0-9A-Za-z_\\x0a])(?:a*)(?:$|[^0-9A-Za-z_\\x0a])", .words = true, .exact = true},
    {"x*", "x*", .exact = true, .always = true},
    {"x*|^", "x* ^", .exact = true, .always = true},
    {"(x*)y?", "(?:x*)y{0,1}", .exact = true, .always = true},
};

static void check_texts(const struct translation *translation, const char *texts)
{
    _cleanup_(freep) char *copy = strdup(texts);
    char *rest = copy;

    for (size_t i = 0; i < translation->n_texts; i++)
        ck_assert_str_eq(translation->texts[i], strsep(&rest, " "));
    ck_assert_ptr_null(rest);
}

START_TEST(pattern_is_translated)
{
    struct translation translation;
    int r = translation_init(&translation, patterns[_i].source, patterns[_i].fold, patterns[_i].words);

    ck_assert_int_eq(r, 0);
    check_texts(&translation, patterns[_i].texts);
    ck_assert_int_eq(translation.exact, patterns[_i].exact);
    ck_assert_int_eq(translation.always, patterns[_i].always);
    translation_deinit(&translation);
}
END_TEST

START_TEST(wrong_pattern_is_left_to_regcomp)
{
    static const char *const wrong[] = {"(",         "(a",        "[a",       "[b-a]",         "[[:foo:]]",
                                        "[[.ab.]]",  "a\\",       "\\1",      "(\\1a)",        "*a",
                                        "a{2,1}",    "a{x}",      "a{1",      "[[:digit:]-z]", "[a-z-9]",
                                        "[[=a=]-z]", "[a-[=z=]]", "a{32768}", "a{1,32768}",    "[\n]"};
    struct translation translation;

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_int_eq(translation_init(&translation, wrong[i], false, false), TRANSLATION_E_SYNTAX);
}
END_TEST

static int translate_repeats(unsigned n)
{
    struct translation translation;
    char source[64];
    int r;

    sprintf(source, "(a{1,%u}b{1,20000})", n);
    r = translation_init(&translation, source, false, false);
    if (!r)
        translation_deinit(&translation);
    return r;
}

START_TEST(positions_are_limited)
{
    ck_assert_int_eq(translate_repeats(TRANSLATION_POSITIONS_MAX - 20001), 0);
    ck_assert_int_eq(translate_repeats(TRANSLATION_POSITIONS_MAX - 20000), 0);
    ck_assert_int_eq(translate_repeats(TRANSLATION_POSITIONS_MAX - 19999), TRANSLATION_E_LARGE);
}
END_TEST

START_TEST(positions_beyond_32_bits_are_too_many)
{
    struct translation translation;

    ck_assert_int_eq(translation_init(&translation, "(((a{32767}){32767}){32767}){32767}", false, false),
                     TRANSLATION_E_LARGE);
}
END_TEST

static int translate_groups(unsigned depth)
{
    char source[2 * TRANSLATION_DEPTH_MAX + 4] = "";
    struct translation translation;
    int r;

    memset(source, '(', depth);
    source[depth] = 'a';
    memset(source + depth + 1, ')', depth);
    r = translation_init(&translation, source, false, false);
    if (!r)
        translation_deinit(&translation);
    return r;
}

START_TEST(depth_is_limited)
{
    ck_assert_int_eq(translate_groups(TRANSLATION_DEPTH_MAX - 1), 0);
    ck_assert_int_eq(translate_groups(TRANSLATION_DEPTH_MAX), 0);
    ck_assert_int_eq(translate_groups(TRANSLATION_DEPTH_MAX + 1), TRANSLATION_E_SYNTAX);
}
END_TEST

START_TEST(texts_that_are_more_than_bytes_are_counted)
{
    struct translation translation;

    ck_assert_int_eq(translation_init(&translation, "ab|a.b|(c)|d+|ef", false, false), 0);
    ck_assert_uint_eq(translation.n_texts, 5);
    ck_assert_uint_eq(translation.n_rich, 3);
    translation_deinit(&translation);
}
END_TEST

START_TEST(any_bytes_are_translated_without_overrun)
{
    static const char alphabet[] = "ab()[]{}*+?|^$\\.,1:-=<>w";
    unsigned seed = (unsigned)_i;

    for (unsigned round = 0; round < 20000; round++) {
        struct translation translation;
        size_t size = (size_t)rand_r(&seed) % 16;
        _cleanup_(freep) char *text = malloc(size + 1); /* exact, for the sanitizer */

        for (size_t i = 0; i < size; i++)
            text[i] = alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
        text[size] = '\0';
        if (!translation_init(&translation, text, round % 2, round % 3 == 0))
            translation_deinit(&translation);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins/translate");
    TCase *tcase = tcase_create("translate");

    tcase_add_loop_test(tcase, pattern_is_translated, 0, (int)ARRAY_SIZE(patterns));
    tcase_add_test(tcase, wrong_pattern_is_left_to_regcomp);
    tcase_add_test(tcase, positions_are_limited);
    tcase_add_test(tcase, positions_beyond_32_bits_are_too_many);
    tcase_add_test(tcase, depth_is_limited);
    tcase_add_test(tcase, texts_that_are_more_than_bytes_are_counted);
    tcase_add_loop_test(tcase, any_bytes_are_translated_without_overrun, 0, 4);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
