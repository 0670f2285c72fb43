/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "tests/unit/suite.h"

static const struct {
    const char *text, *shown;
} cases[] = {
    {"", ""},
    {"plain text, \\ \"quotes\" and a\ttab", "plain text, \\ \"quotes\" and a\ttab"},
    {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80"},
    /* C0, DEL */
    {"\x01\x08\n\x0b\r\x1b]0;x\x07\x1f \x7f~", "\\x01\\x08\\x0a\\x0b\\x0d\\x1b]0;x\\x07\\x1f \\x7f~"},
    /* C1: as bytes, and as UTF-8 */
    {"\x80\x9b\x9f\xa0", "\\x80\\x9b\\x9f\\xa0"},
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\u{80}\\u{9b}\\u{9f}\xc2\xa0"},
    /* invalid: alone, cut off, overlong, surrogates, above the last */
    {"\xff\xc3", "\\xff\\xc3"},
    {"\xe2\x82", "\\xe2\\x82"},
    {"\xc0\xaf\xc1\xbf\xe0\x9f\xbf\xf0\x8f\xbf\xbf", "\\xc0\\xaf\\xc1\\xbf\\xe0\\x9f\\xbf\\xf0\\x8f\\xbf\\xbf"},
    {"\xed\x9f\xbf\xed\xa0\x80\xed\xbf\xbf\xee\x80\x80", "\xed\x9f\xbf\\xed\\xa0\\x80\\xed\\xbf\\xbf\xee\x80\x80"},
    {"\xf4\x8f\xbf\xbd\xf4\x90\x80\x80\xf5\x80\x80\x80", "\xf4\x8f\xbf\xbd\\xf4\\x90\\x80\\x80\\xf5\\x80\\x80\\x80"},
    {"\xe0\xa0\x80\xf0\x90\x80\x80\xc2\xa1", "\xe0\xa0\x80\xf0\x90\x80\x80\xc2\xa1"}, /* the first of each length */
    /* direction, separators, what is not seen */
    {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf",
     "\xe2\x80\xa7\\u{2028}\\u{2029}\\u{202a}\\u{202e}\xe2\x80\xaf"},
    {"\xe2\x81\x9f\xe2\x81\xa0\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaf\xe2\x81\xb0",
     "\xe2\x81\x9f\\u{2060}\\u{2066}\\u{2069}\\u{206f}\xe2\x81\xb0"},
    {"a\xc2\xad"
     "b\xd8\x9c\xe2\x80\x8b\xe2\x80\x8f\xef\xbb\xbf",
     "a\\u{ad}b\\u{61c}\\u{200b}\\u{200f}\\u{feff}"},
    {"\xf3\xa0\x80\x81\xf3\xa0\x81\xbf\xef\xbf\xbe", "\\u{e0001}\\u{e007f}\\u{fffe}"},
};

START_TEST(what_is_not_printable_is_shown_as_escapes)
{
    char shown[256], again[256];

    ck_assert_uint_eq(escape_text(shown, sizeof(shown), cases[_i].text), strlen(cases[_i].shown));
    ck_assert_str_eq(shown, cases[_i].shown);
    escape_text(again, sizeof(again), shown);
    ck_assert_str_eq(again, shown);
}
END_TEST

START_TEST(ends_of_lines_stay_where_they_are_asked_for)
{
    char shown[64];

    escape_lines(shown, sizeof(shown), "a\n\x1b\xc2\x85\r\n");
    ck_assert_str_eq(shown, "a\n\\x1b\\u{85}\\x0d\n");
}
END_TEST

START_TEST(no_character_and_no_escape_is_cut)
{
    static const char text[] = "ab\xc3\xa9\x1b\xc2\x9b", whole[] = "ab\xc3\xa9\\x1b\\u{9b}";
    static const size_t ends[] = {0, 1, 2, 4, 8, 14}; /* of what is shown of each */
    char shown[sizeof(whole)];

    for (size_t room = 1; room <= sizeof(whole); room++) {
        size_t fits = 0;

        for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
            fits = ends[i] < room ? ends[i] : fits;
        ck_assert_uint_eq(escape_text(shown, room, text), fits);
        ck_assert_uint_eq(strlen(shown), fits);
        ck_assert(memcmp(shown, whole, fits) == 0);
    }
}
END_TEST

START_TEST(what_is_cut_is_marked)
{
    static const char mark[] = ESCAPE_MARK;
    char shown[8];

    ck_assert_uint_eq(escape_marked(shown, sizeof(shown), "abcdefg"), 7); /* it fits */
    ck_assert_str_eq(shown, "abcdefg");
    ck_assert_uint_eq(escape_marked(shown, sizeof(shown), "abcdefgh"), 4 + strlen(mark));
    ck_assert_str_eq(shown, "abcd" ESCAPE_MARK);
    ck_assert_uint_eq(escape_marked(shown, sizeof(shown), "abc\xc3\xa9ghi"), 3 + strlen(mark)); /* no half of it */
    ck_assert_str_eq(shown, "abc" ESCAPE_MARK);
    ck_assert_uint_eq(escape_marked(shown, strlen(mark) + 1, "abcd"), strlen(mark));
    ck_assert_str_eq(shown, mark);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("escape");
    TCase *tc = tcase_create("escape");

    tcase_add_loop_test(tc, what_is_not_printable_is_shown_as_escapes, 0, (int)(sizeof(cases) / sizeof(*cases)));
    tcase_add_test(tc, ends_of_lines_stay_where_they_are_asked_for);
    tcase_add_test(tc, no_character_and_no_escape_is_cut);
    tcase_add_test(tc, what_is_cut_is_marked);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
