/* SPDX-License-Identifier: Apache-2.0
 *
 * test-when.c: times as people write them, in one zone, at one moment. */
#include <check.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "client/wsctl/when.h"
#include "tests/unit/suite.h"

#define NOW 1937001700000000u /* 2031-05-19 20:01:40 in New York, a Monday */

static const struct {
    const char *text;
    double seconds;
} good[] = {
    {"now", 1937001700},
    {"+5min", 1937002000},
    {"+1h 30min", 1937007100},
    {"+5", 1937001705},
    {"5min left", 1937002000},
    {"@1937001600", 1937001600},
    {"@1937001600.5", 1937001600.5},
    {"20:02", 1937001720},
    {"20:01", 1937088060},
    {"08:00", 1937044800},
    {"08:00 PM", 1937088000},
    {"08:02pm", 1937001720},
    {"12:00 AM", 1937016000},
    {"12:00 PM", 1937059200},
    {"noon", 1937059200},
    {"midnight", 1937016000},
    {"tomorrow", 1937016000},
    {"tomorrow noon", 1937059200},
    {"tomorrow 08:00", 1937044800},
    {"today 00:00", 1936929600},
    {"today 18:30:15.25", 1936996215.25},
    {"2031-05-17", 1936756800},
    {"2031-05-17 08:00", 1936785600},
    {"2031-05-17T08:00", 1936785600},
    {"Sat 2031-05-17 08:00", 1936785600},
    {"Saturday 2031-05-17", 1936756800},
    {"2031-05-17 08:00 PM", 1936828800},
    {"2031-05-17 08:00 Europe/Berlin", 1936764000},
    {"2031-05-17 Europe/Berlin", 1936735200},
    {"2031-05-17 America/Mexico_City", 1936764000},
    {"2031-05-17 08:00 +01:00", 1936767600},
    {"2031-05-17 08:00+01:00", 1936767600},
    {"2031-05-17T08:00:00+01:00", 1936767600},
    {"2031-05-17 08:00 +0100", 1936767600},
    {"2031-05-17 08:00 +01", 1936767600},
    {"2031-05-17 08:00 -05:30", 1936791000},
    {"2031-05-17 08:00 UTC", 1936771200},
    {"2031-05-17 08:00Z", 1936771200},
    {"2031-05-17T08:00:00Z", 1936771200},
    {"08:00 UTC", 1937030400},
    {"08:00 Europe/Berlin", 1937023200},
    {"tomorrow Europe/Berlin", 1937080800},
    {"noon UTC", 1937044800},
    {"2031-03-09 02:30", 1930807800}, /* left out: 03:30 */
    {"2031-11-02 01:30", 1951363800}, /* twice: the first */
};

START_TEST(times_are_read)
{
    uint64_t usec;

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        ck_assert_msg(parse_when(good[i].text, NOW, &usec) == 0, "%s", good[i].text);
        ck_assert_msg(usec == (uint64_t)(good[i].seconds * 1e6), "%s: %.6f", good[i].text, (double)usec / 1e6);
    }
}
END_TEST

START_TEST(others_are_refused)
{
    static const char *const bad[] = {
        "",
        "x",
        "Now",
        "now UTC",
        "today",
        "yesterday",
        "5min ago",
        "-5min",
        "+",
        "+-5",
        "+0x10",
        "+1e3",
        "+5min left",
        " left",
        "8:00",
        "08:00 ",
        " 08:00",
        "24:00",
        "13:00 PM",
        "00:00 AM",
        "08:60",
        "08:00 XM",
        "08:00 CET",
        "08:00 PMx",
        "2031-02-30",
        "31-05-17",
        "2031-5-7",
        "Fri 2031-05-17",
        "Mon 08:00",
        "Mon",
        "2031-05-17T",
        "2031-05-17 CET",
        "@",
        "@253402300800",
        "noonish",
        "tomorrow8",
        "todaynoon",
        "tomorrow 8",
        "08:00 No/Where",
        "08:00 ../x/",
        "08:00 /etc/passwd",
        "08:00 +1:00",
        "08:00 +16",
        "08:00 +01:",
        "08:00 +010",
        "08:00 +01:60",
        "08:00 +01:00 UTC",
        "08:00Europe/Berlin",
        "1969-12-31 UTC",
    };
    uint64_t usec;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        ck_assert_msg(parse_when(bad[i], NOW, &usec) < 0, "%s", bad[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("when");
    TCase *tcase = tcase_create("when");

    setenv("TZ", "America/New_York", 1);
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, times_are_read);
    tcase_add_test(tcase, others_are_refused);
    return run_suite(suite);
}
