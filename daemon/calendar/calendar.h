/* SPDX-License-Identifier: Apache-2.0
 *
 * calendar.h: recurring times, in the syntax of systemd.time(7): `Mon..Fri 08:00`, `*-*-1/2 *:0/15`, `*-02~1
 * Europe/Berlin`, `daily`. [any; const after calendar_parse]
 *
 * systemd-analyze(1) is the reference. The differences:
 *   - A list has at most CALENDAR_PARTS values.
 *   - A zone goes only by its name in the database, not by the name of its summer time.
 *   - If a clock is turned back and the same local time comes twice, the first of the two that is later than the given
 *     time is the result.
 *   - Lists behind ~ may go as far as single days (28), which systemd 252 refuses.
 *   - Times are found on which systemd gives up ("Resource deadlock avoided", around an hour that is left out).
 *   - Times are found that systemd passes over, where a repetition goes beyond the end of a day or a month (`0/7:30`
 *     after 21:30 of a month's last day).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CALENDAR_MAX   256u /* bytes of a text, with NUL */
#define CALENDAR_PARTS 64u  /* values in one list */

struct calendar;

/* Parses a text. 0; -EINVAL: it is not a calendar; -ENOMEM; others if the zone's file cannot be read. */
int calendar_parse(struct calendar **ret_calendar, const char *text);
/* Of a text that calendar_parse() refuses with -EINVAL: the last word, if all but that is a calendar, and it can only be
 * a time zone that is not known here. NULL: something else is wrong. */
const char *calendar_unknown_zone(const char *text);
struct calendar *calendar_free(struct calendar *c);
/* The first time after after_usec (microseconds since the epoch). 0 or -ENOENT: there is none. */
int calendar_next(const struct calendar *c, uint64_t after_usec, uint64_t *ret_usec);
/* The same after a last run at ran_usec, which is not after after_usec. When a clock is turned back, a local time comes
 * twice. If the last run was at its first coming, the second coming of it and of the times before it is passed over. */
int calendar_next_run(const struct calendar *c, uint64_t after_usec, uint64_t ran_usec, uint64_t *ret_usec);
