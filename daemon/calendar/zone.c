/* SPDX-License-Identifier: Apache-2.0
 *
 * zone.c: reads a zone's file, and the rule behind its last line.
 * Owns what was read. [any]
 * Keeps: nothing in a file is believed; one that is damaged is refused.
 * Does not know leap seconds, as the clock does not. */
#include "calendar/zone.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DATABASE   "/usr/share/zoneinfo/"
#define LOCAL      "/etc/localtime"
#define DAY        86400
#define OFFSET_MAX (26 * 3600) /* RFC 8536 */

/* When summer time begins or ends, each year. */
struct turn {
    char kind; /* M month, week, day; J day of the year without 29 February, from 1; D with it, from 0 */
    int month, week, day;
    int seconds; /* of that day, local time until then */
};

struct zone {
    size_t n;         /* changes */
    int64_t *changes; /* when; behind each its offset in: */
    int32_t *offsets; /* n + 1: the first is before any */
    bool rule;        /* what holds behind the last change */
    int32_t standard, summer;
    bool has_summer;
    struct turn begin, end;
};

/* --- dates -------------------------------------------------------------------------------------------------------- */

/* Years that begin with March: then the odd day is the last. */
int64_t date_days(int year, int month, int day)
{
    int64_t y = (int64_t)year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void date_of(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, of_era = z - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;

    *ret_day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *ret_month = (int)(m < 10 ? m + 3 : m - 9);
    *ret_year = (int)(y + era * 400 + (*ret_month <= 2));
}

int date_month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap);
}

/* --- the rule ----------------------------------------------------------------------------------------------------- */

static bool number(const char **at, int max, int *ret)
{
    int n = 0;

    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at) && n <= max; (*at)++)
        n = n * 10 + (**at - '0');
    *ret = n;
    return n <= max;
}

/* [+-]HH[:MM[:SS]] */
static bool clock_time(const char **at, int max_hours, int *ret)
{
    int sign = **at == '-' ? -1 : 1, hours, minutes = 0, seconds = 0;

    if (**at == '-' || **at == '+')
        (*at)++;
    if (!number(at, max_hours, &hours))
        return false;
    if (**at == ':') {
        (*at)++;
        if (!number(at, 59, &minutes))
            return false;
        if (**at == ':') {
            (*at)++;
            if (!number(at, 59, &seconds))
                return false;
        }
    }
    *ret = sign * (hours * 3600 + minutes * 60 + seconds);
    return true;
}

static bool name(const char **at)
{
    const char *begin = *at;

    if (**at == '<') {
        const char *end = strchr(*at, '>');

        *at = end ? end + 1 : *at;
        return end;
    }
    while (isalpha((unsigned char)**at))
        (*at)++;
    return *at - begin >= 3;
}

static bool read_turn(const char **at, struct turn *ret)
{
    *ret = (struct turn){.seconds = 7200};
    if (*(*at)++ != ',')
        return false;
    ret->kind = **at == 'M' || **at == 'J' ? *(*at)++ : 'D';
    if (ret->kind == 'M') {
        if (!number(at, 12, &ret->month) || ret->month < 1 || *(*at)++ != '.' || !number(at, 5, &ret->week) ||
            ret->week < 1 || *(*at)++ != '.' || !number(at, 6, &ret->day))
            return false;
    } else if (!number(at, 365, &ret->day) || (ret->kind == 'J' && ret->day < 1)) {
        return false;
    }
    if (**at != '/')
        return true;
    (*at)++;
    return clock_time(at, 167, &ret->seconds);
}

/* As POSIX has TZ, and RFC 8536 the last line of a file. */
static bool rule(struct zone *z, const char *at)
{
    int west;

    if (!name(&at) || !clock_time(&at, 24, &west))
        return false;
    z->standard = -west;
    if (*at) {
        z->has_summer = true;
        z->summer = z->standard + 3600;
        if (!name(&at))
            return false;
        if (*at && *at != ',') {
            if (!clock_time(&at, 24, &west))
                return false;
            z->summer = -west;
        }
        if (!read_turn(&at, &z->begin) || !read_turn(&at, &z->end) || *at)
            return false;
    }
    z->rule = true;
    return true;
}

static int64_t turn_day(const struct turn *t, int year)
{
    int64_t first;

    if (t->kind == 'J')
        return date_days(year, 1, 1) + t->day - 1 + (t->day >= 60 && date_month_days(year, 2) == 29);
    if (t->kind == 'D')
        return date_days(year, 1, 1) + t->day;
    first = date_days(year, t->month, 1);
    first += ((t->day + 6) % 7 - date_weekday(first) + 7) % 7 + 7 * (t->week - 1);
    return first - 7 * (first >= date_days(year, t->month, 1) + date_month_days(year, t->month));
}

static int32_t rule_offset(const struct zone *z, int64_t utc)
{
    int64_t local = utc + z->standard, begin, end;
    int year, month, day;

    if (!z->has_summer)
        return z->standard;
    date_of((local >= 0 ? local : local - DAY + 1) / DAY, &year, &month, &day);
    begin = turn_day(&z->begin, year) * DAY + z->begin.seconds - z->standard;
    end = turn_day(&z->end, year) * DAY + z->end.seconds - z->summer;
    bool summer = begin < end ? utc >= begin && utc < end : utc < end || utc >= begin;
    return summer ? z->summer : z->standard;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t big64(const uint8_t *p)
{
    return (int64_t)((uint64_t)big32(p) << 32 | big32(p + 4));
}

enum { UT, STD, LEAP, TIME, TYPE, CHAR, N_COUNTS };

static size_t block_size(const uint32_t n[N_COUNTS], size_t time_size)
{
    return n[TIME] * (time_size + 1) + n[TYPE] * 6 + n[CHAR] + n[LEAP] * (time_size + 4) + n[STD] + n[UT];
}

/* 44 bytes. False: it is none, or says more than there may be. */
static bool header(const uint8_t *p, const uint8_t *end, uint32_t ret[N_COUNTS])
{
    if (end - p < 44 || memcmp(p, "TZif", 4) != 0 || p[4] < '2')
        return false;
    for (int i = 0; i < N_COUNTS; i++)
        if ((ret[i] = big32(p + 20 + 4 * i)) > ZONE_FILE_MAX)
            return false;
    return ret[TYPE] >= 1;
}

static bool read_block(struct zone *z, const uint8_t *p, const uint32_t n[N_COUNTS])
{
    const uint8_t *types = p + n[TIME] * 8, *infos = types + n[TIME];

    z->changes = calloc(n[TIME] + 1, sizeof(*z->changes));
    z->offsets = calloc(n[TIME] + 1, sizeof(*z->offsets));
    if (!z->changes || !z->offsets)
        return false;
    z->n = n[TIME];
    z->offsets[0] = (int32_t)big32(infos);
    for (size_t i = 0; i < z->n; i++) {
        z->changes[i] = big64(p + 8 * i);
        if (types[i] >= n[TYPE] || (i && z->changes[i] <= z->changes[i - 1]))
            return false;
        z->offsets[i + 1] = (int32_t)big32(infos + 6 * types[i]);
    }
    for (size_t i = 0; i <= z->n; i++)
        if (z->offsets[i] < -OFFSET_MAX || z->offsets[i] > OFFSET_MAX)
            return false;
    return true;
}

int zone_read(struct zone **ret_zone, const void *data, size_t size)
{
    const uint8_t *p = data, *end = p + size;
    struct zone *z = calloc(1, sizeof(*z));
    uint32_t n[N_COUNTS];
    char text[128];

    if (!z)
        return -ENOMEM;
    if (size > ZONE_FILE_MAX || !header(p, end, n) || (size_t)(end - p) < 44 + block_size(n, 4))
        goto bad;
    p += 44 + block_size(n, 4); /* that was for readers of 32 bits */
    if (!header(p, end, n) || (size_t)(end - p) < 44 + block_size(n, 8) + 2 || !read_block(z, p + 44, n))
        goto bad;
    p += 44 + block_size(n, 8);
    const uint8_t *last = memchr(p + 1, '\n', (size_t)(end - p - 1));
    if (*p != '\n' || !last || last - p > (long)sizeof(text))
        goto bad;
    memcpy(text, p + 1, (size_t)(last - p - 1));
    text[last - p - 1] = 0;
    if (*text && !rule(z, text))
        goto bad;
    *ret_zone = z;
    return 0;
bad:
    zone_free(z);
    return -EBADMSG;
}

static int read_file(struct zone **ret_zone, const char *path)
{
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    _cleanup_(freep) char *data = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOMEM || errno == EMFILE || errno == ENFILE ? -errno : -ENOENT;
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)ZONE_FILE_MAX)
        return -ENOENT;
    data = malloc((size_t)st.st_size + 1);
    if (!data)
        return -ENOMEM;
    n = read(fd, data, (size_t)st.st_size);
    return n < 0 ? -errno : zone_read(ret_zone, data, (size_t)n);
}

/* Nothing that leaves the database. */
static bool is_name(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/");

    return n > 0 && n < ZONE_NAME_MAX && !text[n] && isalpha((unsigned char)*text);
}

static int by_rule(struct zone **ret_zone, const char *text)
{
    struct zone *z = calloc(1, sizeof(*z));

    if (!z)
        return -ENOMEM;
    if (!rule(z, text)) {
        free(z);
        return -ENOENT;
    }
    *ret_zone = z;
    return 0;
}

int zone_open(struct zone **ret_zone, const char *name)
{
    const char *local = name ? NULL : getenv("TZ");
    char path[sizeof(DATABASE) + ZONE_NAME_MAX];
    int r;

    if (!name && !local) {
        r = read_file(ret_zone, LOCAL);
        return r == -ENOENT || r == -EBADMSG ? by_rule(ret_zone, "UTC0") : r;
    }
    if (local)
        name = *local == ':' ? local + 1 : local;
    if (strcmp(name, "UTC") == 0 || !*name)
        return by_rule(ret_zone, "UTC0");
    r = -EINVAL;
    if (is_name(name)) {
        snprintf(path, sizeof(path), DATABASE "%s", name);
        r = read_file(ret_zone, path);
    } else if (local && *name == '/') {
        r = read_file(ret_zone, name);
    }
    if (!local || r == 0 || r == -ENOMEM)
        return r;
    r = by_rule(ret_zone, name); /* as the C library: a rule of its own, or UTC */
    return r == -ENOENT ? by_rule(ret_zone, "UTC0") : r;
}

struct zone *zone_free(struct zone *z)
{
    if (!z)
        return NULL;
    free(z->changes);
    free(z->offsets);
    free(z);
    return NULL;
}

/* --- there and back ----------------------------------------------------------------------------------------------- */

static int32_t offset(const struct zone *z, int64_t utc)
{
    size_t low = 0, high = z->n;

    if (z->rule && (z->n == 0 || utc >= z->changes[z->n - 1]))
        return rule_offset(z, utc);
    while (low < high) { /* how many changes have been */
        size_t middle = (low + high) / 2;

        if (z->changes[middle] <= utc)
            low = middle + 1;
        else
            high = middle;
    }
    return z->offsets ? z->offsets[low] : 0;
}

int64_t zone_local(const struct zone *z, int64_t utc)
{
    return utc + offset(z, utc);
}

int zone_find(const struct zone *z, int64_t local, int64_t ret[static 2], int64_t *ret_next)
{
    int64_t before = offset(z, local - OFFSET_MAX), after = offset(z, local + OFFSET_MAX);
    int64_t early = local - MAX(before, after), late = local - MIN(before, after);
    int n = 0;

    if (zone_local(z, early) == local)
        ret[n++] = early;
    if (late != early && zone_local(z, late) == local)
        ret[n++] = late;
    if (n > 0)
        return n;
    /* the change is between the two: the local time jumps over what was asked for */
    while (late - early > 1) {
        int64_t middle = early + (late - early) / 2;

        if (zone_local(z, middle) < local)
            early = middle;
        else
            late = middle;
    }
    *ret_next = zone_local(z, late);
    return 0;
}
