/* SPDX-License-Identifier: Apache-2.0
 *
 * zone.h: time zones, from the system's database (TZif, RFC 8536). The C library knows one zone per process, from its
 * environment; each schedule has its own. Times are seconds since the epoch. A local time is what a wall clock there
 * shows, in seconds, counted as if it were UTC. [any; const after zone_open]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_NAME_MAX 64u
#define ZONE_FILE_MAX (64u * 1024u)

struct zone;

/* Opens a zone by its name (Europe/Berlin); NULL: the local one, by TZ or /etc/localtime, else UTC. 0, -ENOENT (there
 * is none), -EINVAL, -EBADMSG (its file is damaged), -ENOMEM. */
int zone_open(struct zone **ret_zone, const char *name);
struct zone *zone_free(struct zone *z);
/* The same from bytes of a file, for tests. */
int zone_read(struct zone **ret_zone, const void *data, size_t size);

int64_t zone_local(const struct zone *z, int64_t utc);
/* Finds the times at which the wall clock there shows `local`, and returns how many. Returns 0 if that time is skipped;
 * *ret_next is then the first local time after the gap. Otherwise it returns 1, or 2 with the earlier one first. */
int zone_find(const struct zone *z, int64_t local, int64_t ret[static 2], int64_t *ret_next);

/* Days since the epoch of a date of the Gregorian calendar, and back; the weekday is 0 for Monday. */
int64_t date_days(int year, int month, int day);
void date_of(int64_t days, int *ret_year, int *ret_month, int *ret_day);
static inline int date_weekday(int64_t days)
{
    return (int)(((days + 3) % 7 + 7) % 7);
}
int date_month_days(int year, int month);
