/* SPDX-License-Identifier: Apache-2.0
 *
 * calendar.c: reads calendar expressions, and finds when they come next.
 * Owns what was read. [any]
 * Keeps: any text is taken whole or refused; a search ends: years are 1970 to 2199.
 * The search goes from the year down to the second: each field takes its next value, and whatever is below begins anew.
 * It goes by the clock on the wall; zone.c says when that is. */
#include "calendar/calendar.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "calendar/zone.h"

#define SECOND 1000000
#define MINUTE (60 * SECOND)
#define DAY    86400

enum field { YEAR, MONTH, DATE, HOUR, MINUTES, USEC, N_FIELDS }; /* USEC: of the minute */

static const struct {
    int first, last;
} limits[N_FIELDS] = {{1970, 2199}, {1, 12}, {1, 31}, {0, 23}, {0, 59}, {0, MINUTE - 1}};

/* start, start + repeat, ... up to stop. */
struct part {
    int start, stop; /* stop -1: to the end */
    int repeat;      /* 0: once */
};

struct list_of {
    struct part *parts; /* none: any value */
    uint32_t n;
};

struct calendar {
    struct list_of fields[N_FIELDS];
    uint8_t weekdays;  /* 1 << 0 for Monday; 0: any */
    bool end_of_month; /* days count from there, the last one is 1 */
    struct zone *zone;
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void list_clear(struct list_of *list)
{
    free(list->parts);
    *list = (struct list_of){0};
}

static int add_part(struct list_of *list, struct part part)
{
    struct part *more;

    if (list->n == CALENDAR_PARTS)
        return -EINVAL;
    more = realloc(list->parts, (list->n + 1) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    list->parts = more;
    list->parts[list->n++] = part;
    return 0;
}

/* Of seconds in microseconds, rounded. */
static int fraction(const char **at)
{
    int usec = 0, unit = SECOND / 10;

    for (; isdigit((unsigned char)**at); (*at)++, unit /= 10)
        if (unit)
            usec += (**at - '0') * unit;
        else if (**at >= '5' && !isdigit((unsigned char)(*at)[-7])) /* the seventh digit */
            usec++;
    return usec;
}

static int value(const char **at, bool is_usec, int *ret)
{
    int64_t n = 0;

    if (!isdigit((unsigned char)**at))
        return -EINVAL;
    for (; isdigit((unsigned char)**at); (*at)++)
        if ((n = n * 10 + (**at - '0')) > INT_MAX)
            return -EINVAL;
    if (is_usec) {
        n *= SECOND;
        if (**at == '.' && (*at)[1] != '.') {
            if (!isdigit((unsigned char)*++*at))
                return -EINVAL;
            n += fraction(at);
        }
    }
    if (n > INT_MAX)
        return -EINVAL;
    *ret = (int)n;
    return 0;
}

static int part(const char **at, bool is_usec, struct part *ret)
{
    struct part p = {.stop = -1};
    int r = value(at, is_usec, &p.start);

    if (r == 0 && (*at)[0] == '.' && (*at)[1] == '.') {
        *at += 2;
        r = value(at, is_usec, &p.stop);
        p.repeat = is_usec ? SECOND : 1;
    }
    if (r == 0 && **at == '/') {
        (*at)++;
        r = value(at, is_usec, &p.repeat);
        if (r == 0 && p.repeat == 0)
            return -EINVAL;
    } else if (r == 0 && is_usec && p.stop >= 0 && p.stop - p.start < SECOND) {
        return -EINVAL; /* the step would be a second */
    }
    *ret = p;
    return r;
}

static int read_list(const char **at, bool is_usec, struct list_of *ret)
{
    int r;

    if (**at == '*') {
        (*at)++;
        return is_usec ? add_part(ret, (struct part){.stop = -1, .repeat = SECOND}) : 0;
    }
    for (;;) {
        struct part p;

        r = part(at, is_usec, &p);
        if (r == 0)
            r = add_part(ret, p);
        if (r < 0 || **at != ',')
            break;
        (*at)++;
    }
    return r < 0 ? r : strchr(" -~:", **at) ? 0 : -EINVAL; /* its NUL, too */
}

/* Its number, and behind it; -1: none. */
static int weekday(const char **at)
{
    static const char *const names[] = {"Monday", "Mon",    "Tuesday", "Tue",      "Wednesday", "Wed",    "Thursday",
                                        "Thu",    "Friday", "Fri",     "Saturday", "Sat",       "Sunday", "Sun"};

    for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
        if (strncasecmp(*at, names[i], strlen(names[i])) == 0) {
            *at += strlen(names[i]);
            return i / 2;
        }
    return -1;
}

/* Mon,Wed..Fri */
static int read_weekdays(const char **at, uint8_t *ret)
{
    for (int from = -1, first = 1;; first = 0) {
        int day = !first && **at == ' ' ? -2 : weekday(at);

        if (day == -2)
            return 0;
        if (day < 0)
            return first ? 0 : -EINVAL;
        if (from > day)
            return -EINVAL;
        for (int d = from < 0 ? day : from; d <= day; d++)
            *ret |= (uint8_t)(1u << d);
        if (!**at || **at == ' ')
            break;
        if (**at == ',') {
            from = -1;
            (*at)++;
        } else if (from < 0 && (**at == '-' || strncmp(*at, "..", 2) == 0)) {
            *at += **at == '-' ? 1 : 2;
            from = day;
        } else if (from >= 0) {
            return -EINVAL;
        }
        if (!**at || **at == ' ') {
            if (from >= 0)
                return -EINVAL;
            break;
        }
    }
    *at += strspn(*at, " ");
    return 0;
}

static int one(struct calendar *c, enum field f, int n)
{
    return add_part(&c->fields[f], (struct part){.start = n, .stop = -1});
}

/* @SECONDS: that once. */
static int read_epoch(struct calendar *c, const char **at)
{
    int64_t seconds = 0;
    int r = 0, year, month, day;

    if (!isdigit((unsigned char)*++*at))
        return -EINVAL;
    for (; isdigit((unsigned char)**at); (*at)++)
        if ((seconds = seconds * 10 + (**at - '0')) > (int64_t)UINT32_MAX * 2)
            return -EINVAL;
    date_of(seconds / DAY, &year, &month, &day);
    const int n[N_FIELDS] = {
        year, month, day, (int)(seconds / 3600 % 24), (int)(seconds / 60 % 60), (int)(seconds % 60) * SECOND};
    for (int f = 0; f < N_FIELDS && r == 0; f++)
        r = one(c, (enum field)f, n[f]);
    c->zone = zone_free(c->zone);
    return r < 0 ? r : zone_open(&c->zone, "UTC");
}

/* [YEAR-]MONTH-DAY or [YEAR-]MONTH~DAY. Where it is a time, *at stays. */
static int read_date(struct calendar *c, const char **at)
{
    struct list_of lists[3] = {{0}};
    const char *p = *at;
    int n = 0, r = 0;

    if (!*p)
        return 0;
    for (;;) {
        r = read_list(&p, false, &lists[n++]);
        if (r < 0 || (n == 1 && (!*p || *p == ':')))
            goto end; /* with n 1: a time */
        if (n >= 2 && (!*p || *p == ' '))
            break;
        r = -EINVAL;
        if (n == 3 || c->end_of_month || (*p != '-' && *p != '~'))
            goto end;
        c->end_of_month = *p++ == '~';
        if (c->end_of_month && n == 1 && strpbrk(p, "-~") && strpbrk(p, "-~") < p + strcspn(p, " "))
            goto end; /* ~ stands before the day */
    }
    *at = p + strspn(p, " ");
    for (int i = 0; i < n; i++) {
        c->fields[DATE - n + 1 + i] = lists[i];
        lists[i] = (struct list_of){0};
    }
    r = 0;
end:
    for (int i = 0; i < 3; i++)
        list_clear(&lists[i]);
    return r;
}

static int read_time(struct calendar *c, const char **at)
{
    int r;

    if (!**at) {
        r = one(c, HOUR, 0);
        r = r < 0 ? r : one(c, MINUTES, 0);
        return r < 0 ? r : one(c, USEC, 0);
    }
    r = read_list(at, false, &c->fields[HOUR]);
    if (r < 0 || *(*at)++ != ':')
        return r < 0 ? r : -EINVAL;
    r = read_list(at, false, &c->fields[MINUTES]);
    if (r < 0 || !**at)
        return r < 0 ? r : one(c, USEC, 0);
    return *(*at)++ == ':' ? read_list(at, true, &c->fields[USEC]) : -EINVAL;
}

/* What stands for a longer one. */
static const char *long_form(const char *text)
{
    static const char *const words[][2] = {
        {"minutely", "*-*-* *:*:00"},     {"hourly", "*-*-* *:00:00"},     {"daily", "*-*-* 00:00:00"},
        {"weekly", "Mon *-*-* 00:00:00"}, {"monthly", "*-*-01 00:00:00"},  {"quarterly", "*-01,04,07,10-01"},
        {"semiannually", "*-01,07-01"},   {"semi-annually", "*-01,07-01"}, {"biannually", "*-01,07-01"},
        {"bi-annually", "*-01,07-01"},    {"yearly", "*-01-01"},           {"annually", "*-01-01"},
        {"anually", "*-01-01"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcasecmp(text, words[i][0]) == 0)
            return words[i][1];
    return text;
}

/* The last word, where it is a zone: cut off. */
static int read_zone(struct calendar *c, char *text)
{
    char *last = strrchr(text, ' ');
    int r = -ENOENT;

    if (last && strcasecmp(last + 1, "UTC") == 0)
        r = zone_open(&c->zone, "UTC");
    else if (last && isalpha((unsigned char)last[1]))
        r = zone_open(&c->zone, last + 1);
    if (r == 0)
        *last = 0;
    return r == -ENOENT || r == -EINVAL ? zone_open(&c->zone, NULL) : r == -EBADMSG ? -EINVAL : r;
}

/* --- what may be -------------------------------------------------------------------------------------------------- */

static bool is_valid(const struct part *p, int first, int last, bool from_end)
{
    last -= from_end ? 3 : 0; /* every month has so many days */
    if (p->start < first || p->start > last || p->repeat > last - first)
        return false;
    if (p->stop >= 0)
        return p->stop >= first && p->stop <= last && p->start + p->repeat <= p->stop;
    return from_end ? p->start - p->repeat >= first : p->start + p->repeat <= last;
}

static int check_fields(struct calendar *c)
{
    if (c->weekdays == 127)
        c->weekdays = 0;
    c->end_of_month &= c->fields[DATE].n > 0;
    for (int f = 0; f < N_FIELDS; f++)
        for (uint32_t i = 0; i < c->fields[f].n; i++) {
            struct part *p = &c->fields[f].parts[i];

            if (f == YEAR) { /* two digits */
                p->start += p->start < 70 ? 2000 : p->start < 100 ? 1900 : 0;
                p->stop += p->stop < 0 ? 0 : p->stop < 70 ? 2000 : p->stop < 100 ? 1900 : 0;
            }
            if (p->stop > p->start && p->repeat > 0)
                p->stop -= (p->stop - p->start) % p->repeat;
            if (p->start == p->stop) /* once */
                p->repeat = 0, p->stop = -1;
            if (!is_valid(p, limits[f].first, limits[f].last, f == DATE && c->end_of_month))
                return -EINVAL;
        }
    return 0;
}

static int parse_text(struct calendar *c, char *text)
{
    const char *at;
    int r = read_zone(c, text);

    if (r < 0)
        return r;
    at = long_form(text);
    if (!*at)
        return -EINVAL;
    r = read_weekdays(&at, &c->weekdays);
    if (r == 0)
        r = *at == '@' ? read_epoch(c, &at) : read_date(c, &at);
    if (r == 0 && c->fields[USEC].n == 0)
        r = read_time(c, &at);
    return r < 0 ? r : *at ? -EINVAL : check_fields(c);
}

int calendar_parse(struct calendar **ret_calendar, const char *text)
{
    struct calendar *c;
    char copy[CALENDAR_MAX];
    int r;

    if (strlen(text) >= sizeof(copy))
        return -EINVAL;
    c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    memcpy(copy, text, strlen(text) + 1);
    r = parse_text(c, copy);
    if (r < 0)
        c = calendar_free(c);
    else
        *ret_calendar = c;
    return r;
}

static bool is_calendar(const char *text)
{
    struct calendar *c = NULL;
    bool is = calendar_parse(&c, text) == 0;

    calendar_free(c);
    return is;
}

const char *calendar_unknown_zone(const char *text)
{
    const char *last = strrchr(text, ' ');
    char before[CALENDAR_MAX];

    if (!last || !isalpha((unsigned char)last[1]) || (size_t)(last - text) >= sizeof(before) || is_calendar(last + 1))
        return NULL;
    snprintf(before, sizeof(before), "%.*s", (int)(last - text), text);
    return is_calendar(before) ? last + 1 : NULL;
}

struct calendar *calendar_free(struct calendar *c)
{
    if (!c)
        return NULL;
    for (int f = 0; f < N_FIELDS; f++)
        list_clear(&c->fields[f]);
    zone_free(c->zone);
    free(c);
    return NULL;
}

/* --- searching ---------------------------------------------------------------------------------------------------- */

/* The first value of the field that is not below n; -1: none. days: of the month, where the field counts from its
 * end. */
static int next_value(const struct calendar *c, enum field f, int n, int days)
{
    const struct list_of *list = &c->fields[f];
    int best = list->n == 0 ? n : -1;

    for (uint32_t i = 0; i < list->n; i++) {
        struct part p = list->parts[i];

        if (days) {
            int stop = p.stop < 0 ? -1 : days + 1 - p.stop;

            p.start = days + 1 - p.start;
            p.stop = stop;
            if (stop > 0) {
                p.stop = p.start;
                p.start = stop;
            }
        }
        int64_t v = p.start;
        if (v < n) {
            if (!p.repeat)
                continue;
            v += ((int64_t)n - v + p.repeat - 1) / p.repeat * p.repeat;
            if (p.stop >= 0 && v > p.stop)
                continue;
        }
        if (v <= limits[f].last && (best < 0 || v < best))
            best = (int)v;
    }
    return best > limits[f].last ? -1 : best;
}

/* Everything below it begins anew. */
static void reset_below(int at[N_FIELDS], enum field f)
{
    for (int below = (int)f + 1; below < N_FIELDS; below++)
        at[below] = limits[below].first;
}

/* One further, where there may be none such: next_value() sees to that. */
static void step_field(int at[N_FIELDS], enum field f)
{
    at[f]++;
    reset_below(at, f);
}

/* The first that is not before `at`, by the clock on the wall. False: none. */
static bool find_time(const struct calendar *c, int at[N_FIELDS])
{
    int f = YEAR;

    while (f < N_FIELDS) {
        int days = f == DATE ? date_month_days(at[YEAR], at[MONTH]) : 0;
        int v = next_value(c, (enum field)f, at[f], f == DATE && c->end_of_month ? days : 0);

        if (v < 0 || (days && v > days)) {
            if (f == YEAR)
                return false;
            step_field(at, (enum field)(f - 1));
            f = YEAR; /* that may be one too many */
            continue;
        }
        if (v > at[f]) {
            at[f] = v;
            reset_below(at, (enum field)f);
        }
        if (f == DATE && c->weekdays && !(c->weekdays >> date_weekday(date_days(at[YEAR], at[MONTH], at[DATE])) & 1)) {
            step_field(at, DATE);
            continue;
        }
        f++;
    }
    return true;
}

static void wall_of(int64_t local, int usec, int ret[N_FIELDS])
{
    int64_t days = (local >= 0 ? local : local - DAY + 1) / DAY;
    int of_day = (int)(local - days * DAY);

    date_of(days, &ret[YEAR], &ret[MONTH], &ret[DATE]);
    ret[HOUR] = of_day / 3600;
    ret[MINUTES] = of_day / 60 % 60;
    ret[USEC] = of_day % 60 * SECOND + usec;
}

int calendar_next(const struct calendar *c, uint64_t after_usec, uint64_t *ret_usec)
{
    return calendar_next_run(c, after_usec, 0, ret_usec);
}

int calendar_next_run(const struct calendar *c, uint64_t after_usec, uint64_t ran_usec, uint64_t *ret_usec)
{
    uint64_t from = after_usec < UINT64_MAX ? after_usec + 1 : after_usec;
    int64_t ran = (int64_t)(ran_usec / SECOND);
    int at[N_FIELDS];

    if (from / SECOND > (uint64_t)INT32_MAX * 4)
        return -ENOENT;
    wall_of(zone_local(c->zone, (int64_t)(from / SECOND)), (int)(from % SECOND), at);
    while (find_time(c, at)) {
        int64_t local =
            date_days(at[YEAR], at[MONTH], at[DATE]) * DAY + at[HOUR] * 3600 + at[MINUTES] * 60 + at[USEC] / SECOND;
        int64_t times[2] = {0, 0}, next;
        int n = zone_find(c->zone, local, times, &next);

        uint64_t first = (uint64_t)times[0] * SECOND + (uint64_t)(at[USEC] % SECOND);
        if (n == 2 && first <= after_usec && first <= ran_usec && times[1] > ran && zone_local(c->zone, ran) >= local) {
            wall_of(zone_local(c->zone, ran), (int)(ran_usec % SECOND), at);
            at[USEC]++;
            continue;
        }
        for (int i = 0; i < n; i++) {
            uint64_t t = (uint64_t)times[i] * SECOND + (uint64_t)(at[USEC] % SECOND);

            if (times[i] >= 0 && t > after_usec) {
                *ret_usec = t;
                return 0;
            }
        }
        if (n == 0)
            wall_of(next, 0, at);
        else
            at[USEC]++;
    }
    return -ENOENT;
}
