/* SPDX-License-Identifier: Apache-2.0
 *
 * when.c: times as people write them: the timestamps of systemd.time(7), and some more.
 *
 *     now, +5min, 5min left              a span from now
 *     @1937001600[.5]                    seconds since the epoch
 *     [Sat] 2031-05-17[ 08:00]           with T between, too
 *     today 18:30, tomorrow [08:00]
 *     18:30                              the next one
 *
 * A time of day is 08:00, 08:00:30, 08:00:30.5, 08:00 PM, noon or midnight. A place may follow all but the first two:
 * Z, UTC, +01:00, +0100, +01, Europe/Berlin. Without a place the time is local.
 *
 * Owns nothing. One thread.
 * Does not take times that can only be past (yesterday, 5min ago), abbreviations of zones, which several zones share
 * (CET), or a year of two digits. For times that come again there is wsctl schedule. */
#include "when.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "calendar/zone.h"
#include "parse.h"

#define DAY        86400
#define SECOND     1000000u
#define LATEST     253402300799 /* the end of the year 9999 */
#define OFFSET_MAX (15 * 3600)

enum day { DAY_ANY, DAY_TODAY, DAY_TOMORROW, DAY_DATE };

struct when {
    enum day day;
    int64_t days; /* since the epoch: DAY_DATE */
    int weekday;  /* -1: none is said */
    bool has_time;
    int64_t seconds; /* of the day */
    uint64_t usec;
    struct zone *zone; /* NULL: offset */
    int64_t offset;    /* seconds east of UTC */
};

/* Takes exactly n digits. */
static bool digits(const char **at, int n, int *ret)
{
    *ret = 0;
    for (int i = 0; i < n; i++, (*at)++) {
        if (!isdigit((unsigned char)**at))
            return false;
        *ret = *ret * 10 + (**at - '0');
    }
    return true;
}

static bool fraction(const char **at, uint64_t *ret_usec)
{
    uint64_t unit = 100000;

    *ret_usec = 0;
    if (**at != '.')
        return true;
    (*at)++;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); (*at)++, unit /= 10)
        *ret_usec += (uint64_t)(**at - '0') * unit;
    return true;
}

/* Takes the word, in upper or lower case, if it is not the beginning of a longer one. */
static bool word(const char **at, const char *name)
{
    size_t n = strlen(name);

    if (strncasecmp(*at, name, n) != 0 || isalpha((unsigned char)(*at)[n]))
        return false;
    *at += n;
    return true;
}

/* Takes AM or PM, also behind a blank. */
static bool half_of_day(const char **at, int *hour)
{
    const char *p = *at + (**at == ' ');
    bool afternoon = word(&p, "PM");

    if (!afternoon && !word(&p, "AM"))
        return true;
    *at = p;
    if (*hour < 1 || *hour > 12)
        return false;
    *hour = *hour % 12 + (afternoon ? 12 : 0);
    return true;
}

static bool time_of_day(const char **at, struct when *w)
{
    int hour, minute, second = 0;

    w->has_time = true;
    if (word(at, "midnight"))
        return true;
    if (word(at, "noon")) {
        w->seconds = DAY / 2;
        return true;
    }
    if (!digits(at, 2, &hour) || *(*at)++ != ':' || !digits(at, 2, &minute))
        return false;
    if (**at == ':') {
        (*at)++;
        if (!digits(at, 2, &second) || !fraction(at, &w->usec))
            return false;
    }
    if (!half_of_day(at, &hour))
        return false;
    w->seconds = hour * 3600 + minute * 60 + second;
    return hour < 24 && minute < 60 && second < 60;
}

/* +01:00, +0100, +01 */
static bool offset(const char **at, int64_t *ret)
{
    int hours, minutes = 0, sign = **at == '-' ? -1 : 1;

    (*at)++;
    if (!digits(at, 2, &hours))
        return false;
    if (**at) {
        *at += **at == ':';
        if (!digits(at, 2, &minutes))
            return false;
    }
    *ret = sign * (hours * 3600 + minutes * 60);
    return minutes < 60 && hours * 3600 + minutes * 60 <= OFFSET_MAX;
}

/* Takes the place, which is all that is left. */
static bool place(const char *at, struct when *w)
{
    bool apart = *at == ' ';

    if (!*at)
        return zone_open(&w->zone, NULL) == 0;
    at += apart;
    if (strcmp(at, "Z") == 0 || strcmp(at, "UTC") == 0)
        return true;
    if (*at == '+' || *at == '-')
        return offset(&at, &w->offset) && !*at;
    return apart && strchr(at, '/') && zone_open(&w->zone, at) == 0;
}

static bool weekday(const char **at, struct when *w)
{
    static const char *const names[] = {"Mon",    "Tue",     "Wed",       "Thu",      "Fri",    "Sat",      "Sun",
                                        "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};

    w->weekday = -1;
    for (size_t i = 0; i < ARRAY_SIZE(names) && w->weekday < 0; i++)
        if (word(at, names[i]))
            w->weekday = (int)(i % 7);
    return w->weekday < 0 || *(*at)++ == ' ';
}

static bool date(const char **at, struct when *w)
{
    int year, month, day;

    if (!digits(at, 4, &year) || *(*at)++ != '-' || !digits(at, 2, &month) || *(*at)++ != '-' || !digits(at, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > date_month_days(year, month))
        return false;
    w->day = DAY_DATE;
    w->days = date_days(year, month, day);
    return w->weekday < 0 || w->weekday == date_weekday(w->days);
}

/* Behind a day: T or a blank, and a time. */
static bool time_follows(const char *at, const struct when *w)
{
    const char *p = at + 1;

    return (*at == ' ' || (*at == 'T' && w->day == DAY_DATE)) &&
           (isdigit((unsigned char)*p) || word(&p, "noon") || word(&p, "midnight"));
}

/* A day, a time of it, and where. */
static bool read_when(const char *at, struct when *w)
{
    if (word(&at, "today"))
        w->day = DAY_TODAY;
    else if (word(&at, "tomorrow"))
        w->day = DAY_TOMORROW;
    else if (!weekday(&at, w))
        return false;
    else if ((w->weekday >= 0 || (strlen(at) > 4 && at[4] == '-')) && !date(&at, w))
        return false;
    if (w->day == DAY_ANY || time_follows(at, w)) {
        at += w->day != DAY_ANY;
        if (!time_of_day(&at, w))
            return false;
    }
    return (w->has_time || w->day != DAY_TODAY) && place(at, w); /* the beginning of today is past */
}

static int64_t to_utc(const struct when *w, int64_t local)
{
    int64_t times[2], next, before;

    if (!w->zone)
        return local - w->offset;
    if (zone_find(w->zone, local, times, &next) > 0)
        return times[0];
    /* The clock leaves this time out. The answer is the time as if the clock had not been moved: 02:30 is 03:30. */
    if (zone_find(w->zone, next, times, &next) == 0)
        return -1;
    before = times[0] - 1;
    return local - (zone_local(w->zone, before) - before);
}

static int resolve(const struct when *w, uint64_t now_usec, uint64_t *ret_usec)
{
    int64_t now = (int64_t)(now_usec / SECOND), there = w->zone ? zone_local(w->zone, now) : now + w->offset;
    int64_t today = there / DAY, days = w->day == DAY_DATE ? w->days : today + (w->day == DAY_TOMORROW);
    int64_t t = to_utc(w, days * DAY + w->seconds);

    if (w->day == DAY_ANY && (t < now || (t == now && w->usec <= now_usec % SECOND)))
        t = to_utc(w, (days + 1) * DAY + w->seconds);
    if (t < 0 || t > LATEST)
        return -1;
    *ret_usec = (uint64_t)t * SECOND + w->usec;
    return 0;
}

static int epoch(const char *at, uint64_t *ret_usec)
{
    uint64_t seconds = 0, usec;

    if (!isdigit((unsigned char)*at))
        return -1;
    for (; isdigit((unsigned char)*at) && seconds < 1000000000000u; at++)
        seconds = seconds * 10 + (uint64_t)(*at - '0');
    if (!fraction(&at, &usec) || *at || seconds > LATEST)
        return -1;
    *ret_usec = seconds * SECOND + usec;
    return 0;
}

/* +SPAN, SPAN left. 1: it is something else. */
static int span(const char *text, uint64_t now_usec, uint64_t *ret_usec)
{
    const size_t n = strlen(text), left = strlen(" left");
    _cleanup_(freep) char *copy = strdup(text + (*text == '+'));
    bool ends = n > left && strcmp(text + n - left, " left") == 0;
    uint64_t usec;

    if (*text != '+' && !ends)
        return 1;
    if (!copy || (*text == '+' && ends))
        return -1;
    if (ends)
        copy[n - left] = 0;
    if (!isdigit((unsigned char)*copy) || parse_duration(copy, &usec) < 0 ||
        usec > LATEST * (uint64_t)SECOND - now_usec)
        return -1;
    *ret_usec = now_usec + usec;
    return 0;
}

int parse_when(const char *text, uint64_t now_usec, uint64_t *ret_usec)
{
    struct when w = {.weekday = -1};
    int r = span(text, now_usec, ret_usec);

    if (r <= 0)
        return r;
    if (*text == '@')
        return epoch(text + 1, ret_usec);
    if (strcmp(text, "now") == 0) {
        *ret_usec = now_usec;
        return 0;
    }
    r = read_when(text, &w) ? resolve(&w, now_usec, ret_usec) : -1;
    zone_free(w.zone);
    return r;
}
