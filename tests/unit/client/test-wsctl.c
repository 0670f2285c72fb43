/* SPDX-License-Identifier: Apache-2.0
 *
 * test-wsctl.c: the parts of wsctl that stand alone: durations, names of plugins, JSON of any bytes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/wsctl/connect.h"
#include "client/wsctl/json-parse.h"
#include "client/wsctl/json-write.h"
#include "client/wsctl/parse.h"
#include "tests/unit/suite.h"

START_TEST(durations_are_read)
{
    static const struct {
        const char *text;
        uint64_t usec;
    } good[] = {
        {"1", 1000000},         {"1.5s", 1500000},      {"500ms", 500000}, {"2min", 120000000},  {"1h", 3600000000},
        {"1min 30s", 90000000}, {"1h2m3s", 3723000000}, {"10 us", 10},     {"1d", 86400000000u}, {"0.000001", 1},
        {"0.3s", 300000},       {"1.000001", 1000001},  {"0.1ms", 100},    {"00100ms", 100000},  {"100usec", 100},
    };
    static const char *const bad[] = {"",
                                      " ",
                                      "0",
                                      "-1",
                                      "+1",
                                      "1x",
                                      "x",
                                      "1s x",
                                      "inf",
                                      "nan",
                                      "1e300",
                                      "s",
                                      "1 2y",
                                      ".",
                                      "1e3",
                                      "0x10",
                                      "0x1p3s",
                                      "1e3ms",
                                      "1E2",
                                      "infinity",
                                      "NAN",
                                      "1,5",
                                      " +1",
                                      "1s -1s",
                                      "1s0x10",
                                      "0b1",
                                      "1_000",
                                      ".5",
                                      "1..5",
                                      "1.5.5",
                                      "99999999999999999999"};
    uint64_t usec;

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        ck_assert_msg(parse_duration(good[i].text, &usec) == 0, "%s", good[i].text);
        ck_assert_uint_eq(usec, good[i].usec);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        ck_assert_msg(parse_duration(bad[i], &usec) < 0, "%s", bad[i]);
}
END_TEST

START_TEST(numbers_are_read_within_their_range)
{
    static const char *const bad[] = {"",     " 5",  "5 ", "x", "101", "-101", "99999999999999999999",
                                      "0x10", "1e1", "+5", "-", "--5", "- 5",  "5.0",
                                      "inf",  "\t5"};
    long long n;

    ck_assert(parse_number("100", -100, 100, &n) == 0 && n == 100);
    ck_assert(parse_number("-100", -100, 100, &n) == 0 && n == -100);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        ck_assert_msg(parse_number(bad[i], -100, 100, &n) < 0, "%s", bad[i]);
}
END_TEST

START_TEST(plugin_and_function_are_split_at_the_last_colon)
{
    static const struct {
        const char *text, *plugin, *function;
        int r;
    } cases[] = {
        {"fib", "fib", NULL, 0},
        {"fib:f", "fib", "f", 0},
        {"a:b:c", "a:b", "c", 0},
        {"./a:b/c.so", "./a:b/c.so", NULL, 0},
        {"./x.so:f", "./x.so", "f", 0},
        {"fib:", "fib", "", -1},
        {":f", "", "f", -1},
        {"", "", NULL, -1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *function;
        char text[64];

        snprintf(text, sizeof(text), "%s", cases[i].text);
        ck_assert_int_eq(parse_plugin(text, &function), cases[i].r);
        ck_assert_str_eq(text, cases[i].plugin);
        ck_assert_pstr_eq(function, cases[i].function);
    }
}
END_TEST

/* What json_end() prints. */
static const char *line_of(struct json *json)
{
    static char line[4096];
    FILE *saved = stdout;

    memset(line, 0, sizeof(line));
    stdout = fmemopen(line, sizeof(line), "w");
    ck_assert_int_eq(json_end(json), 0);
    fclose(stdout);
    stdout = saved;
    return line;
}

START_TEST(strings_become_valid_json)
{
    static const struct {
        const char *bytes, *json;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"quote\" back\\", "quote\\\" back\\\\"},
        {"\n\t\x01\x7f", "\\u000a\\u0009\\u0001\\u007f"},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        /* what a terminal heeds or hides */
        {"\xc2\x9b"
         "31m\xe2\x80\xae\xf3\xa0\x81\xa1",
         "\\u009b31m\\u202e\\udb40\\udc61"},
        {"\xff", "\xef\xbf\xbd"},
        {"a\xc3", "a\xef\xbf\xbd"},                                               /* cut off */
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* overlong */
        {"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* a surrogate */
        {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* beyond Unicode */
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct json json = {.n = 0};
        char expected[256];

        json_string(&json, "k", cases[i].bytes);
        snprintf(expected, sizeof(expected), "{\"k\":\"%s\"}\n", cases[i].json);
        ck_assert_str_eq(line_of(&json), expected);
    }
}
END_TEST

START_TEST(bytes_become_base64)
{
    /* RFC 4648, section 10 */
    static const char *const cases[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct json json = {.n = 0};
        char expected[64];

        json_base64(&json, "o", cases[i][0], strlen(cases[i][0]));
        snprintf(expected, sizeof(expected), "{\"o\":\"%s\"}\n", cases[i][1]);
        ck_assert_str_eq(line_of(&json), expected);
    }
}
END_TEST

START_TEST(members_and_arrays_have_their_commas)
{
    struct json json = {.n = 0};

    json_number(&json, "a", UINT64_MAX);
    json_open(&json, "l", '[');
    for (int i = 0; i < 2; i++) {
        json_open(&json, NULL, '{');
        json_bool(&json, "b", i);
        json_string(&json, "c", "");
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_open(&json, "e", '[');
    json_close(&json, ']');
    json_number(&json, "z", 0);
    ck_assert_str_eq(line_of(&json),
                     "{\"a\":18446744073709551615,\"l\":[{\"b\":false,\"c\":\"\"},{\"b\":true,\"c\":\"\"}],"
                     "\"e\":[],\"z\":0}\n");
    ck_assert_str_eq(line_of(&json), "{}\n"); /* it can be used again */
}
END_TEST

static bool is_object(const char *text, size_t size)
{
    struct json_value *value = NULL;
    bool is = json_read_object(text, size, &value) == 1;

    ck_assert_int_eq(is, value != NULL);
    json_free(value);
    return is;
}

START_TEST(objects_are_told_from_nonsense)
{
    static const char *const good[] = {"{}", "{\"a\":1}", "{\"a\":-1.50,\"b\":{\"c\":\"d e\\\"\\\\\"}, \"f\" : {} } "};
    static const char *const bad[] = {"",
                                      "{",
                                      "}",
                                      "[]",
                                      "1",
                                      "{}{}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{\"a\":01}",
                                      "{\"a\":1.}",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"\\",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":\"\xff\"}",
                                      "{\"a\":nan}",
                                      "{\"a\":\"",
                                      "{} x"};
    char deep[256] = "";

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        ck_assert_msg(is_object(good[i], strlen(good[i])), "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        ck_assert_msg(!is_object(bad[i], strlen(bad[i])), "%s", bad[i]);
    for (size_t i = 0; i < strlen(good[2]) - 1; i++)
        ck_assert(!is_object(good[2], i)); /* cut off */
    ck_assert(!is_object("{\"a\0\":1}", 8));
    for (int i = 0; i < 40; i++)
        strcat(deep, "{\"a\":");
    ck_assert(!is_object(deep, strlen(deep)));
}
END_TEST

START_TEST(plugin_of_this_directory_is_hinted_at)
{
    char directory[] = "/tmp/wsctl-test-XXXXXX", hint[256];

    ck_assert_ptr_nonnull(mkdtemp(directory));
    ck_assert_int_eq(chdir(directory), 0);
    fclose(fopen("mine.so", "we"));
    ck_assert_ptr_nonnull(strstr(plugin_hint("mine", hint, sizeof(hint)), "./mine.so"));
    ck_assert_ptr_nonnull(strstr(plugin_hint("mine.so", hint, sizeof(hint)), "./mine.so"));
    ck_assert_str_eq(plugin_hint("other", hint, sizeof(hint)), "");
    ck_assert_str_eq(plugin_hint("./mine.so", hint, sizeof(hint)), ""); /* it is named rightly */
    ck_assert_str_eq(plugin_hint(NULL, hint, sizeof(hint)), "");
    unlink("mine.so");
    ck_assert_int_eq(chdir("/"), 0);
    rmdir(directory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wsctl");
    TCase *tcase = tcase_create("wsctl");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, durations_are_read);
    tcase_add_test(tcase, numbers_are_read_within_their_range);
    tcase_add_test(tcase, plugin_and_function_are_split_at_the_last_colon);
    tcase_add_test(tcase, strings_become_valid_json);
    tcase_add_test(tcase, bytes_become_base64);
    tcase_add_test(tcase, members_and_arrays_have_their_commas);
    tcase_add_test(tcase, objects_are_told_from_nonsense);
    tcase_add_test(tcase, plugin_of_this_directory_is_hinted_at);
    return run_suite(suite);
}
