/* SPDX-License-Identifier: Apache-2.0
 *
 * parse.c: numbers, durations and names of plugins, as people write them. Owns nothing. */
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int parse_number(const char *text, long long min, long long max, long long *ret)
{
    char *end;

    errno = 0;
    if (!isdigit((unsigned char)text[*text == '-'])) /* nor does a blank or a plus come first */
        return -1;
    long long value = strtoll(text, &end, 10);

    if (errno || *end || value < min || value > max)
        return -1;
    *ret = value;
    return 0;
}

/* Digits, and a point with more of them: no sign, no exponent, no hexadecimal, no "inf", whatever strtod() takes, and
 * the same in each locale. */
static bool decimal(const char *at, double *ret, const char **ret_end)
{
    double scale = 1;

    if (!isdigit((unsigned char)*at))
        return false;
    for (*ret = 0; isdigit((unsigned char)*at); at++)
        *ret = *ret * 10 + (*at - '0');
    if (*at == '.')
        for (at++; isdigit((unsigned char)*at); at++, scale *= 10)
            *ret = *ret * 10 + (*at - '0');
    *ret /= scale;
    *ret_end = at;
    return true;
}

int parse_duration(const char *text, uint64_t *ret_usec)
{
    static const struct {
        const char *name;
        double usec;
    } units[] = {{"us", 1},   {"usec", 1},   {"ms", 1e3},   {"msec", 1e3},  {"s", 1e6},     {"sec", 1e6},    {"", 1e6},
                 {"m", 60e6}, {"min", 60e6}, {"h", 3600e6}, {"hr", 3600e6}, {"d", 86400e6}, {"day", 86400e6}};
    double sum = 0;
    const char *p = text;

    do {
        const char *end;
        size_t n = 0, i;
        double value;

        while (*p == ' ')
            p++;
        if (!decimal(p, &value, &end))
            return -1;
        for (p = end; *p == ' '; p++)
            ;
        while (isalpha((unsigned char)p[n]))
            n++;
        for (i = 0; i < sizeof(units) / sizeof(*units); i++)
            if (strlen(units[i].name) == n && strncmp(units[i].name, p, n) == 0)
                break;
        if (i == sizeof(units) / sizeof(*units))
            return -1;
        sum += value * units[i].usec;
        p += n;
    } while (*p);
    if (!(sum >= 1 && sum <= 1e18)) /* of too many digits it is no number */
        return -1;
    *ret_usec = (uint64_t)(sum + 0.5);
    return 0;
}

int parse_plugin(char *text, const char **ret_function)
{
    char *colon = strrchr(text, ':');

    *ret_function = NULL;
    if (colon && !strchr(colon, '/')) {
        *colon = 0;
        *ret_function = colon + 1;
        if (!colon[1])
            return -1;
    }
    return *text ? 0 : -1;
}
