/* SPDX-License-Identifier: Apache-2.0
 *
 * scalars.c: single values: numbers, sizes, times, yes and no.
 * Owns nothing. [any]
 * Keeps: a value that is refused changes nothing. */
#include "configuration/scalars.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "configuration/configuration.h"

#define TIME_MAX (366ull * 24 * 3600 * 1000000)

int scalar_bool(const char *value)
{
    static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (strcmp(value, yes[i]) == 0)
            return 1;
        if (strcmp(value, no[i]) == 0)
            return 0;
    }
    return -EINVAL;
}

/* A whole number of at least 1, with one of the suffixes. */
static int parse_number(const char *value, const char *const *suffixes, const uint64_t *factors, size_t n,
                        uint64_t *ret)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (errno || end == value || value[0] < '0' || value[0] > '9' || number == 0)
        return -EINVAL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(end, suffixes[i]) == 0) {
            if (number > UINT64_MAX / factors[i])
                return -EINVAL;
            *ret = number * factors[i];
            return 0;
        }
    return -EINVAL;
}

int scalar_size(const char *value, uint64_t *ret)
{
    static const char *const suffixes[] = {"", "B", "K", "M", "G", "T"};
    static const uint64_t factors[] = {1, 1, 1ull << 10, 1ull << 20, 1ull << 30, 1ull << 40};

    return parse_number(value, suffixes, factors, ARRAY_SIZE(suffixes), ret);
}

int scalar_time(const char *value, uint64_t *ret)
{
    static const char *const suffixes[] = {"", "s", "ms", "min", "h", "d"};
    static const uint64_t factors[] = {1000000, 1000000, 1000, 60000000, 3600000000u, 86400000000u};
    uint64_t usec;

    if (parse_number(value, suffixes, factors, ARRAY_SIZE(suffixes), &usec) < 0 || usec > TIME_MAX)
        return -EINVAL;
    *ret = usec;
    return 0;
}

static int parse_plain(const char *value, uint64_t most, uint64_t *ret)
{
    uint64_t number;

    if (parse_number(value, (const char *const[]){""}, (const uint64_t[]){1}, 1, &number) < 0 || number > most)
        return -EINVAL;
    *ret = number;
    return 0;
}

int scalar_count(const char *value, uint64_t *ret)
{
    return parse_plain(value, UINT64_MAX, ret);
}

int scalar_id(const char *value, uint64_t *ret)
{
    return parse_plain(value, UINT32_MAX - 1, ret);
}

static int parse_small(const char *value, uint32_t most, uint32_t *ret)
{
    uint64_t number;
    int r = parse_plain(value, most, &number);

    if (r == 0)
        *ret = (uint32_t)number;
    return r;
}

int scalar_workers(const char *value, uint32_t *ret)
{
    return parse_small(value, JOBS_WORKERS_MAX, ret);
}

int scalar_weight(const char *value, uint32_t *ret)
{
    return parse_small(value, JOBS_CPU_WEIGHT_MAX, ret);
}

int scalar_running(const char *value, uint32_t *ret)
{
    return parse_small(value, UINT32_MAX, ret);
}

int scalar_tasks(const char *value, uint64_t *ret)
{
    return parse_plain(value, INT32_MAX / 2, ret);
}

int scalar_memory(const char *value, uint64_t *ret)
{
    uint64_t number = 0;

    if (strcmp(value, "none") != 0 &&
        (scalar_size(value, &number) < 0 || number < CONFIG_MEMORY_MIN || number > CONFIG_MEMORY_MAX))
        return -EINVAL;
    *ret = number;
    return 0;
}

void scalar_print_bound(uint64_t bytes, FILE *to)
{
    if (bytes == 0 || bytes == UINT64_MAX)
        fputs(bytes ? "unlimited" : "none", to);
    else
        fprintf(to, "%llu", (unsigned long long)bytes);
}
