/* SPDX-License-Identifier: Apache-2.0
 *
 * when.c: times as people write them.
 *
 *     @1937001600[.5]                    seconds since the epoch
 *     2031-05-17[ 08:00[:30[.5]]]        also with T between; local time, unless Z, UTC or +01:00 follows
 *     today 18:30, tomorrow [08:00]      local time
 *     18:30[:00]                         the next one
 *
 * Owns nothing. One thread.
 * Does not read what is said of weekdays or spans: --delay is for spans, wsctl schedule for what comes again. */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"

/* Exactly n digits. */
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

/* HH:MM[:SS[.FRACTION]] */
static bool time_of_day(const char **at, struct tm *tm, uint64_t *ret_usec)
{
    *ret_usec = 0;
    tm->tm_sec = 0;
    if (!digits(at, 2, &tm->tm_hour) || *(*at)++ != ':' || !digits(at, 2, &tm->tm_min))
        return false;
    if (**at == ':') {
        (*at)++;
        if (!digits(at, 2, &tm->tm_sec) || !fraction(at, ret_usec))
            return false;
    }
    return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 60;
}

/* Z, UTC or an offset, or nothing: then local time. */
static bool zone(const char **at, bool *ret_utc, long *ret_seconds)
{
    int hours, minutes, sign = **at == '-' ? -1 : 1;

    *ret_utc = true;
    *ret_seconds = 0;
    if (**at == ' ' && (*at)[1] == 'U')
        (*at)++;
    if (**at == 'Z' || strncmp(*at, "UTC", 3) == 0) {
        *at += **at == 'Z' ? 1 : 3;
        return true;
    }
    if (**at != '+' && **at != '-') {
        *ret_utc = false;
        return true;
    }
    (*at)++;
    if (!digits(at, 2, &hours) || *(*at)++ != ':' || !digits(at, 2, &minutes) || minutes > 59)
        return false;
    *ret_seconds = sign * (hours * 3600L + minutes * 60L);
    return true;
}

static int finish(struct tm *tm, bool utc, long offset, uint64_t usec, uint64_t *ret_usec)
{
    struct tm given = *tm;
    time_t t;

    tm->tm_isdst = -1;
    t = utc ? timegm(tm) : mktime(tm);
    /* a day that the month does not have; an hour that the zone leaves out is the one that comes in its place */
    if (tm->tm_mon != given.tm_mon || t - offset < 0)
        return -1;
    *ret_usec = (uint64_t)(t - offset) * 1000000 + usec;
    return 0;
}

static int epoch(const char *at, uint64_t *ret_usec)
{
    uint64_t seconds = 0, usec;

    if (!isdigit((unsigned char)*at))
        return -1;
    for (; isdigit((unsigned char)*at) && seconds < 1000000000000u; at++)
        seconds = seconds * 10 + (uint64_t)(*at - '0');
    if (!fraction(&at, &usec) || *at || seconds > 253402300799u)
        return -1;
    *ret_usec = seconds * 1000000 + usec;
    return 0;
}

static int date(const char *at, uint64_t *ret_usec)
{
    struct tm tm = {.tm_year = 0};
    uint64_t usec = 0;
    long offset;
    bool utc;

    if (!digits(&at, 4, &tm.tm_year) || *at++ != '-' || !digits(&at, 2, &tm.tm_mon) || *at++ != '-' ||
        !digits(&at, 2, &tm.tm_mday) || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1)
        return -1;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    if ((*at == 'T' || *at == ' ') && isdigit((unsigned char)at[1])) {
        at++;
        if (!time_of_day(&at, &tm, &usec))
            return -1;
    }
    return zone(&at, &utc, &offset) && !*at ? finish(&tm, utc, offset, usec, ret_usec) : -1;
}

int parse_when(const char *text, uint64_t now_usec, uint64_t *ret_usec)
{
    time_t now = (time_t)(now_usec / 1000000);
    bool tomorrow = strncmp(text, "tomorrow", 8) == 0, today = strncmp(text, "today", 5) == 0;
    const char *at = text + (tomorrow ? 8 : today ? 5 : 0);
    uint64_t usec = 0;
    struct tm tm;

    if (*text == '@')
        return epoch(text + 1, ret_usec);
    if (!tomorrow && !today && strlen(text) > 4 && text[4] == '-')
        return date(text, ret_usec);
    localtime_r(&now, &tm);
    tm.tm_mday += tomorrow;
    tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
    if (tomorrow || today) {
        if (!*at && tomorrow)
            goto end;
        if (*at++ != ' ')
            return -1;
    }
    if (!time_of_day(&at, &tm, &usec) || *at)
        return -1;
end:;
    struct tm next = tm;

    tm.tm_isdst = -1;
    *ret_usec = (uint64_t)mktime(&tm) * 1000000 + usec;
    if (*ret_usec <= now_usec && !today && !tomorrow) {
        next.tm_mday++;
        next.tm_isdst = -1;
        *ret_usec = (uint64_t)mktime(&next) * 1000000 + usec;
    }
    return 0;
}
