/* SPDX-License-Identifier: Apache-2.0
 *
 * test-calendar.c: calendar.c beside the real `systemd-analyze calendar`. It compares each documented expression and
 * hundreds of random ones, valid and not, in several zones, from times around changes of summer time. WSD_SEED repeats
 * a row. */
#include "calendar/calendar.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "calendar/zone.h"

#define STEPS  6   /* of each expression */
#define BATCH  100 /* expressions of one systemd-analyze */
#define RANDOM 600 /* expressions, each in one zone */

static const char *const zones[] = {"UTC",          "Europe/Berlin",    "America/New_York", "Australia/Lord_Howe",
                                    "Asia/Kolkata", "Pacific/Auckland", "Europe/Dublin"};

/* Before the clock changes there, and some days without anything. */
static const int64_t bases[] = {1774735200, 1793491200, 1772863200, 1777730400, 1790164800,
                                1759588200, 1761436800, 1709078400, 1798761599, 1795320000};

/* systemd.time(7), and systemd's own way of writing. */
static const char *const documented[] = {
    "Thu,Fri 2012-*-1,5 11:12:13",
    "Sat,Thu,Mon..Wed,Sat..Sun",
    "Mon,Sun 12-*-* 2,1:23",
    "Wed *-1",
    "Wed..Wed,Wed *-1",
    "Wed, 17:48",
    "Wed..Sat,Tue 12-10-15 1:2:3",
    "*-*-7 0:0:0",
    "10-15",
    "monday *-12-* 17:00",
    "Mon,Fri *-*-3,1,2 *:30:45",
    "12,14,13,12:20,10,30",
    "12..14:10,20,30",
    "mon,fri *-1/2-1,3 *:30:45",
    "03-05 08:05:40",
    "08:05:40",
    "05:40",
    "Sat,Sun 12-05 08:05:40",
    "Sat,Sun 08:05:40",
    "2003-03-05 05:40",
    "05:40:23.4200004/3.1700005",
    "2003-02..04-05",
    "2003-03-05 05:40 UTC",
    "2003-03-05",
    "03-05",
    "hourly",
    "daily",
    "daily UTC",
    "monthly",
    "weekly",
    "weekly Pacific/Auckland",
    "yearly",
    "annually",
    "*:2/3",
    "minutely",
    "quarterly",
    "semiannually",
    "Quarterly",
    "Fri *-*~1",
    "*-02~03",
    "*-05~07/1",
    "Mon *-05~07/1",
    "*-*~1",
    "2031-*-* 00:00",
    "*-*-* *:00/15",
    "*:0/5:0..30/10",
    "Mon..Fri",
    "Mon..Fri *-*-* 10:00 America/New_York",
    "@1924992000",
    "*-*-* 02:30",
    "*-*-* 01:30",
    "*-*-* 02:00..03:30",
    "*-*~3..1",
    "*-*~1..3",
    "*-02-29",
    "Mon *-02-29",
    "*-02-30",
    "*:*:*",
    "*:*:0/0.5",
    "2199-12-31 23:59:59",
    "1970-01-01",
    "*-*-31",
    "*-1..3-*",
    "*-4,6-31",
    "Sun *-*-1..7",
    "*-*-* 0/6:30",
    "70-01-01",
    "69-01-01",
    "99-01-01",
    "Mon-Fri 08:00",
    "*-*-1/10",
    "Sat..Mon",
    "Mon..",
    "Mon,,Tue",
    ",Mon",
    "Mon..Wed..Fri",
    "24:00",
    "12:60",
    "12:00:60",
    "*-13-01",
    "*-00-01",
    "*-01-32",
    "*-01-00",
    "2200-01-01",
    "1969-01-01",
    "",
    " ",
    "Mon ",
    "10",
    "*",
    "*-*",
    "*-*-*",
    "*:*",
    "1..1:00",
    "3..1:00",
    "1..3/5:00",
    "0/24:00",
    "0/23:00",
    "12:00 UTC+1",
    "12:00 Nowhere/City",
    "12:00 ../UTC",
    "12:00 /etc/passwd",
    "daily daily",
    "12:00:00.1234567",
    "12:00:00.",
    "12:00:00..30",
    "12:00:00.5..01",
    "12:00:0..0.5",
    "*~1",
    "*~1-1",
    "*-*-1~1",
    "~1",
    "Mon~1",
    "@",
    "@x",
    "@1924992000 12:00",
    "Mon @1924992000",
    "1,2,3,:00",
    "*/2:00",
    "*:*/10",
    "12:00 ",
    "12 :00",
    "Monday..sunday 1:1:1",
    "Mond",
    "*-*-01..15/7",
    "*-*~28",
    "*-*~29",
    "*-*~31",
    "*-*~1/3",
    "*-*~28/3",
    "anually",
    "fortnightly",
    "12:00 utc",
    "*-*-* 12:00:59.999999",
    "4294967296:00",
    "-1:00",
};

struct answer {
    bool valid, gave_up;
    int n;
    int64_t times[STEPS];
};

/* `Sat 2027-02-27 23:00:00 UTC` */
static int64_t time_of(const char *text)
{
    struct tm tm = {.tm_year = 0};

    ck_assert_ptr_nonnull(strptime(strchr(text, ' ') + 1, "%Y-%m-%d %H:%M:%S UTC", &tm));
    return timegm(&tm);
}

static bool has_no_reference(void)
{
    if (system("systemd-analyze calendar daily >/dev/null 2>&1") == 0) /* NOLINT: in tests */
        return false;
    puts("systemd-analyze is not here: nothing is compared");
    return true;
}

/* It took the expression, and then did not find its next time ("Resource deadlock avoided"). */
static bool has_given_up(const char *line, const char *text)
{
    char words[CALENDAR_MAX + 64];

    snprintf(words, sizeof(words), "Failed to determine next elapse for '%s'", text);
    return strstr(line, words);
}

static const char *behind(const char *line, const char *word)
{
    const char *at = strstr(line, word);

    return at ? at + strlen(word) + strspn(at + strlen(word), " ") : NULL;
}

/* What systemd says of n expressions. */
static void ask(const char *zone, int64_t base, const char *const *texts, size_t n, struct answer *ret)
{
    char *command = NULL, *line = NULL;
    size_t size = 0, room = 0;
    FILE *f = open_memstream(&command, &size);
    bool passing = false;
    long at = 0;

    fprintf(f, "LC_ALL=C TZ=%s systemd-analyze calendar --iterations=%d --base-time=@%" PRId64 " --", zone, STEPS,
            base);
    for (size_t i = 0; i < n; i++)
        fprintf(f, " '%s' '@1'", texts[i]); /* each has an end, also where it is refused */
    fprintf(f, " 2>&1");
    fclose(f);
    memset(ret, 0, n * sizeof(*ret));
    f = popen(command, "r"); /* NOLINT: in tests */
    ck_assert_ptr_nonnull(f);
    while (getline(&line, &room, f) > 0) {
        const char *utc = behind(line, "(in UTC):"), *text = utc;

        if (strstr(line, "Normalized form:")) {
            passing = strstr(line, " 1970-01-01 00:00:01 UTC\n");
            at += passing;
        }
        for (size_t i = 0; i < n && strncmp(line, "Failed", 6) == 0; i++)
            ret[i].gave_up |= has_given_up(line, texts[i]);
        if (passing || at >= (long)n)
            continue;
        if (!utc && (behind(line, "Next elapse:") || behind(line, "Iter. #")))
            text = strrchr(line, 'U') ? behind(line, strstr(line, "Next") ? "Next elapse:" : ":") : NULL;
        if (strstr(line, "Next elapse:"))
            ret[at].valid = true;
        if (text && strstr(text, " UTC\n") && !strstr(text, "never") && ret[at].n < STEPS)
            ret[at].times[ret[at].n++] = time_of(text);
    }
    pclose(f);
    ck_assert_int_eq(at, (long)n);
    free(line);
    free(command);
}

static bool comes_twice(const struct zone *z, int64_t a, int64_t b)
{
    return zone_local(z, a) == zone_local(z, b);
}

/* Asked for a second before it, systemd finds it: so it has passed over it before. It does (252), where a repetition
 * goes beyond the end of an hour, a day, a month or a year: the search goes on behind the beginning of the next. */
static bool was_passed_over(const char *zone, const struct zone *z, const char *text, int64_t at, int64_t wanted)
{
    int64_t days = zone_local(z, at) / 86400;
    struct answer answer;
    int year, month, day;

    date_of(days, &year, &month, &day);
    if (day == 1 && zone_local(z, at) % 86400 == 0 && strchr(text, '/'))
        return true; /* the second before it is in the month before */
    const char *seconds = strrchr(text, ':');
    if (zone_local(z, at) % 3600 == 0 && seconds && strchr(seconds, '/'))
        return true; /* and of seconds where an hour ends: the base may be the second before it */
    /* behind a jump ahead: in Dublin, with its DST in winter, it goes on with the next day */
    if (zone_local(z, at) - zone_local(z, at - 1) > 1) {
        ask(zone, at, &text, 1, &answer);
        return answer.n > 0 && answer.times[0] < wanted; /* asked there, it finds some of that day */
    }
    ask(zone, at - 1, &text, 1, &answer);
    return answer.n > 0 && answer.times[0] == at;
}

static void compare(const char *zone, int64_t base, const char *text, const struct answer *wanted)
{
    struct calendar *c = NULL;
    struct zone *z = NULL;
    int r = calendar_parse(&c, text);
    uint64_t after = (uint64_t)base * 1000000, got;
    const char *word = strrchr(text, ' ');

    if (wanted->gave_up || (r == 0 && !wanted->valid && strchr(text, '~') && strchr(strchr(text, '~'), ','))) {
        calendar_free(c); /* see calendar.h */
        return;
    }
    ck_assert_msg((r == 0) == wanted->valid, "%s: [%s]: %s", zone, text, wanted->valid ? "refused" : "taken");
    if (r < 0)
        return;
    if (!word || zone_open(&z, word + 1) < 0)
        ck_assert_int_eq(zone_open(&z, zone), 0);
    for (int i = 0; i < STEPS; i++) {
        r = calendar_next(c, after, &got);
        if (i >= wanted->n) {
            ck_assert_msg(wanted->n == 0 ? r == -ENOENT : true, "%s: [%s] from %" PRId64 ": comes", zone, text, base);
            break;
        }
        ck_assert_msg(r == 0, "%s: [%s] from %" PRId64 ": never comes", zone, text, base);
        if ((int64_t)(got / 1000000) < wanted->times[i] &&
            was_passed_over(zone, z, text, (int64_t)(got / 1000000), wanted->times[i]))
            break;
        ck_assert_msg((int64_t)(got / 1000000) == wanted->times[i] ||
                          comes_twice(z, (int64_t)(got / 1000000), wanted->times[i]),
                      "%s: [%s] from %" PRId64 ", %d: %" PRIu64 " where %" PRId64 " was expected", zone, text, base, i,
                      got / 1000000, wanted->times[i]);
        ck_assert_msg(got > after, "%s: [%s]: back", zone, text);
        /* where a time comes twice, either has its way from there on */
        if ((int64_t)(got / 1000000) != wanted->times[i])
            break;
        after = got;
    }
    zone_free(z);
    calendar_free(c);
}

static void compare_all(const char *zone, int64_t base, const char *const *texts, size_t n)
{
    static struct answer answers[BATCH];

    setenv("TZ", zone, 1);
    for (size_t at = 0; at < n; at += BATCH) {
        size_t m = MIN(n - at, (size_t)BATCH);

        ask(zone, base, texts + at, m, answers);
        for (size_t i = 0; i < m; i++)
            compare(zone, base, texts[at + i], &answers[i]);
    }
}

START_TEST(documented_ones_are_as_systemd_says)
{
    if (has_no_reference())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(zones); i++)
        compare_all(zones[i], bases[i], documented, ARRAY_SIZE(documented));
    /* a second before an hour ends: see was_passed_over() */
    compare_all("America/New_York", 1798761599, (const char *const[]){"*:*:0/9"}, 1);
    /* before an hour that is left out: the same */
    compare_all("Europe/Dublin", 1774735200, (const char *const[]){"1..14:*"}, 1);
}
END_TEST

static uint64_t state;

static int dice(int n)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t x = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (int)((x ^ (x >> 31)) % (uint64_t)n);
}

static void some_list(FILE *f, int first, int last)
{
    int n = dice(4) ? 1 : 1 + dice(3);

    if (dice(3) == 0) {
        fputc('*', f);
        return;
    }
    for (int i = 0; i < n; i++) {
        int a = first + dice(last - first + 1);

        fprintf(f, "%s%0*d", i ? "," : "", dice(2) + 1, a);
        if (dice(4) == 0)
            fprintf(f, "..%d", dice(8) ? a + dice(last - a + 1) : dice(last + 2));
        if (dice(5) == 0)
            fprintf(f, "/%d", 1 + dice((last - first) / 2));
    }
}

static char *random_one(void)
{
    static const char *const days[] = {"Mon", "tue", "Wednesday", "Thu", "FRI", "sat", "Sun"};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int a = dice(7);

    if (dice(3) == 0)
        fprintf(f, "%s%s%s ", days[a], dice(2) ? "," : "..", days[dice(8) ? a + dice(7 - a) : dice(7)]);
    if (dice(2)) {
        if (dice(3) == 0) {
            some_list(f, 2024, 2040);
            fputc('-', f);
        } else if (dice(2)) {
            fputs("*-", f);
        }
        some_list(f, 1, 12);
        fputc(dice(4) ? '-' : '~', f);
        some_list(f, 1, dice(4) ? 28 : 31);
    }
    if (dice(5)) {
        if (ftell(f) > 0 && text && size == 0)
            fflush(f);
        fflush(f);
        if (size && text[size - 1] != ' ')
            fputc(' ', f);
        some_list(f, 0, 23);
        fputc(':', f);
        some_list(f, 0, 59);
        if (dice(2)) {
            fputc(':', f);
            some_list(f, 0, 59);
        }
    }
    if (dice(6) == 0)
        fprintf(f, " %s", zones[dice(ARRAY_SIZE(zones))]);
    fclose(f);
    return text;
}

START_TEST(random_ones_are_as_systemd_says)
{
    const char *seed = getenv("WSD_SEED");
    char *texts[BATCH];

    state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("WSD_SEED=%" PRIu64 "\n", state);
    if (has_no_reference())
        return;
    for (int round = 0; round < RANDOM / BATCH; round++) {
        for (int i = 0; i < BATCH; i++)
            texts[i] = random_one();
        compare_all(zones[dice(ARRAY_SIZE(zones))], bases[dice(ARRAY_SIZE(bases))], (const char *const *)texts, BATCH);
        for (int i = 0; i < BATCH; i++)
            free(texts[i]);
    }
}
END_TEST

static uint64_t next(const char *zone, const char *text, int64_t after)
{
    struct calendar *c;
    uint64_t t;

    setenv("TZ", zone, 1);
    ck_assert_int_eq(calendar_parse(&c, text), 0);
    ck_assert_int_eq(calendar_next(c, (uint64_t)after * 1000000, &t), 0);
    calendar_free(c);
    return t;
}

START_TEST(an_hour_that_is_left_out_is_passed_over)
{
    /* 2026-03-29, from 02:00 to 03:00 */
    ck_assert_uint_eq(next("Europe/Berlin", "02:30", 1774735200), 1774830600000000u);     /* the day after */
    ck_assert_uint_eq(next("Europe/Berlin", "02..03:30", 1774735200), 1774747800000000u); /* 03:30 */
    ck_assert_uint_eq(next("Europe/Berlin", "*:0/20", 1774745940), 1774746000000000u);    /* 03:00 follows 01:59 */
    ck_assert_uint_eq(next("Europe/London", "1..14:*", 1774735200), 1774746000000000u);   /* 02:00 follows 00:59 */
    ck_assert_uint_eq(next("Europe/Dublin", "1..14:*", 1774735200), 1774746000000000u);
}
END_TEST

START_TEST(an_hour_that_comes_twice_counts_once)
{
    /* 2026-10-25, 03:00 becomes 02:00 */
    ck_assert_uint_eq(next("Europe/Berlin", "02:30", 1792875600), 1792888200000000u);
    ck_assert_uint_eq(next("Europe/Berlin", "02:30", 1792888200), 1792978200000000u); /* and then the day after */
    /* asked for between the two: the second */
    ck_assert_uint_eq(next("Europe/Berlin", "02:30", 1792890000), 1792891800000000u);
}
END_TEST

static uint64_t next_run(const char *text, uint64_t after_usec, uint64_t ran_usec)
{
    struct calendar *c;
    uint64_t t;

    setenv("TZ", "Europe/Berlin", 1);
    ck_assert_int_eq(calendar_parse(&c, text), 0);
    ck_assert_int_eq(calendar_next_run(c, after_usec, ran_usec, &t), 0);
    calendar_free(c);
    return t;
}

#define AT(seconds) ((seconds)*UINT64_C(1000000))

START_TEST(what_ran_before_the_clock_went_back_does_not_run_again)
{
    /* 02:30 came at 1792888200 for the first time, and at 1792891800 for the second; 02:00 came again at 1792890000 */
    ck_assert_uint_eq(next_run("02:30", AT(1792890000), AT(1792888200)), AT(1792978200u)); /* the day after */
    ck_assert_uint_eq(next_run("02:30", AT(1792888200), AT(1792888200)), AT(1792978200u));
    ck_assert_uint_eq(next_run("02:30", AT(1792890000), AT(1792801800)), AT(1792891800u)); /* ran the day before */
    ck_assert_uint_eq(next_run("02:30", AT(1792890000), 0), AT(1792891800u));
    ck_assert_uint_eq(next_run("02:30", AT(1792890000), AT(1792886500)), AT(1792891800u)); /* it last ran at 02:01:40 */
    /* 02:20 did, 02:30 did not */
    ck_assert_uint_eq(next_run("02:20,30", AT(1792890000), AT(1792887600)), AT(1792891800u));
    /* begun in the second hour */
    ck_assert_uint_eq(next_run("*:0/10", AT(1792890600), AT(1792890600)), AT(1792891200u));
    /* 02:50 is followed by 03:00 */
    ck_assert_uint_eq(next_run("*:0/10", AT(1792890000), AT(1792889400)), AT(1792893600u));
    ck_assert_uint_eq(next_run("*:*:0/0.25", AT(1792888200) + 250000, AT(1792888200) + 250000),
                      AT(1792888200) + 500000u);
    ck_assert_uint_eq(next_run("*:*:0/0.25", AT(1792891800), AT(1792888200) + 250000), AT(1792891800) + 500000u);
    /* the first time after it, whatever ran */
    for (uint64_t after = AT(1792880000); after < AT(1792900000); after += AT(97))
        ck_assert_uint_eq(next_run("*:0/7", after, after), next("Europe/Berlin", "*:0/7", (int64_t)(after / AT(1))));
}
END_TEST

START_TEST(fractions_of_seconds)
{
    ck_assert_uint_eq(next("UTC", "*:*:0/0.25", 1000), 1000250000u);
    ck_assert_uint_eq(next("UTC", "*:*:59.999999", 0), 59999999u);
    ck_assert_uint_eq(next("UTC", "*:*:1.2345678", 0), 1234568u);
}
END_TEST

START_TEST(a_list_has_its_limit)
{
    struct calendar *c;
    char text[CALENDAR_MAX + 2] = "";

    for (uint32_t i = 0; i < CALENDAR_PARTS; i++)
        strcat(text, i ? ",1" : "1");
    strcat(text, ":00");
    ck_assert_int_eq(calendar_parse(&c, text), 0);
    calendar_free(c);
    memmove(text + 2, text, strlen(text) + 1);
    memcpy(text, "1,", 2);
    ck_assert_int_eq(calendar_parse(&c, text), -EINVAL);
    memset(text, '0', CALENDAR_MAX);
    memcpy(text + CALENDAR_MAX - 4, "1:00", 4);
    text[CALENDAR_MAX] = 0;
    ck_assert_int_eq(calendar_parse(&c, text), -EINVAL);
    ck_assert_int_eq(calendar_parse(&c, text + 1), 0);
    calendar_free(c);
}
END_TEST

static const struct {
    const char *text, *zone; /* NULL: something else is wrong */
} unknown[] = {{"Mon 10:00 Europe/Nowhere", "Europe/Nowhere"},
               {"daily CEST", "CEST"},
               {"*:0/15 ../x", NULL},
               {"Mon 30:00 Europe/Nowhere", NULL},
               {"Europe/Nowhere", NULL},
               {"Mon Tue", NULL},
               {" Europe/Nowhere", NULL},
               {"10:00 ", NULL},
               {"", NULL}};

START_TEST(an_unknown_zone_is_named)
{
    struct calendar *c;
    const char *zone = calendar_unknown_zone(unknown[_i].text);

    ck_assert_int_eq(calendar_parse(&c, unknown[_i].text), -EINVAL);
    ck_assert_pstr_eq(zone, unknown[_i].zone);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calendar");
    TCase *c = tcase_create("calendar");

    tcase_set_timeout(c, 300);
    tcase_add_test(c, documented_ones_are_as_systemd_says);
    tcase_add_test(c, random_ones_are_as_systemd_says);
    tcase_add_test(c, an_hour_that_is_left_out_is_passed_over);
    tcase_add_test(c, an_hour_that_comes_twice_counts_once);
    tcase_add_test(c, what_ran_before_the_clock_went_back_does_not_run_again);
    tcase_add_test(c, fractions_of_seconds);
    tcase_add_test(c, a_list_has_its_limit);
    tcase_add_loop_test(c, an_unknown_zone_is_named, 0, (int)(sizeof(unknown) / sizeof(*unknown)));
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
