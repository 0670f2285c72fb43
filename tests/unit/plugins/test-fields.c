/* SPDX-License-Identifier: Apache-2.0
 *
 * test-fields.c: how join cuts a line into fields. */
#include "plugins/fields.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* The fields of the line, each in brackets. */
static const char *cut(const char *line, int separator)
{
    static char text[256];
    struct fields fields = fields_begin(line, strlen(line), separator);
    struct field field;
    int n = 0;

    text[0] = '\0';
    while (fields_next(&fields, &field))
        n += snprintf(text + n, sizeof(text) - (size_t)n, "[%.*s]", (int)field.size, field.data);
    return text;
}

START_TEST(blanks_separate_in_runs_but_not_in_front)
{
    ck_assert_str_eq(cut("a b", FIELDS_BLANKS), "[a][b]");
    ck_assert_str_eq(cut(" \ta \t b", FIELDS_BLANKS), "[a][b]");
    ck_assert_str_eq(cut("a\vb", FIELDS_BLANKS), "[a\vb]");
}
END_TEST

START_TEST(blanks_at_the_end_leave_an_empty_field)
{
    ck_assert_str_eq(cut("a  ", FIELDS_BLANKS), "[a][]");
}
END_TEST

START_TEST(nothing_and_only_blanks_have_no_field)
{
    ck_assert_str_eq(cut("", FIELDS_BLANKS), "");
    ck_assert_str_eq(cut(" \t", FIELDS_BLANKS), "");
    ck_assert_str_eq(cut("", ','), "");
    ck_assert_str_eq(cut("", FIELDS_WHOLE), "");
}
END_TEST

START_TEST(each_character_separates)
{
    ck_assert_str_eq(cut("a,,b", ','), "[a][][b]");
    ck_assert_str_eq(cut(",a,", ','), "[][a][]");
    ck_assert_str_eq(cut(" a b", ','), "[ a b]");
    ck_assert_str_eq(cut("a\xffz", 0xff), "[a][z]");
}
END_TEST

START_TEST(a_line_can_be_one_field)
{
    ck_assert_str_eq(cut(" a,b ", FIELDS_WHOLE), "[ a,b ]");
}
END_TEST

START_TEST(a_field_that_is_not_there_is_empty)
{
    static const char line[] = "a,b";

    ck_assert_uint_eq(fields_at(line, 3, ',', 1).size, 1);
    ck_assert_ptr_eq(fields_at(line, 3, ',', 1).data, line + 2);
    ck_assert_uint_eq(fields_at(line, 3, ',', 2).size, 0);
    ck_assert_uint_eq(fields_at(line, 0, ',', 0).size, 0);
}
END_TEST

START_TEST(fields_compare_as_bytes_shorter_first)
{
    const struct field empty = {.data = ""}, a = {.data = "a", .size = 1}, ab = {.data = "ab", .size = 2},
                       high = {.data = "\x80", .size = 1};

    ck_assert_int_lt(field_compare(&empty, &a), 0);
    ck_assert_int_lt(field_compare(&a, &ab), 0);
    ck_assert_int_lt(field_compare(&ab, &high), 0);
    ck_assert_int_gt(field_compare(&high, &a), 0);
    ck_assert_int_eq(field_compare(&ab, &ab), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins fields");
    TCase *tcase = tcase_create("fields");

    tcase_add_test(tcase, blanks_separate_in_runs_but_not_in_front);
    tcase_add_test(tcase, blanks_at_the_end_leave_an_empty_field);
    tcase_add_test(tcase, nothing_and_only_blanks_have_no_field);
    tcase_add_test(tcase, each_character_separates);
    tcase_add_test(tcase, a_line_can_be_one_field);
    tcase_add_test(tcase, a_field_that_is_not_there_is_empty);
    tcase_add_test(tcase, fields_compare_as_bytes_shorter_first);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
