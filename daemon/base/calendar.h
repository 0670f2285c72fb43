/* SPDX-License-Identifier: Apache-2.0
 *
 * calendar.h: times that come again and again, in the syntax of systemd.time(7): `Mon..Fri 08:00`, `*-*-1/2 *:0/15`,
 * `*-02~1 Europe/Berlin`, `daily`. [any; const after calendar_parse]
 *
 * What systemd-analyze(1) says is the measure. The differences: at most CALENDAR_PARTS values stand in a list; a zone
 * goes by its name in the database only, not by what summer time is called there; where a clock is turned back and the
 * same local time comes twice, it is the first of them that is later than what was asked for; lists behind ~ may go as
 * far as single days (28), which systemd 252 refuses; and what it gives up on ("Resource deadlock avoided", around an
 * hour that is left out), or passes over where a repetition goes beyond the end of a day or a month (`0/7:30` after
 * 21:30 of a month's last day), is found.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CALENDAR_MAX   256u /* bytes of a text, with NUL */
#define CALENDAR_PARTS 64u  /* values in one list */

struct calendar;

/* 0; -EINVAL: it is no such thing; -ENOMEM; others where the zone's file cannot be read. */
int calendar_parse(struct calendar **ret_calendar, const char *text);
struct calendar *calendar_free(struct calendar *c);
/* The first time after that one (microseconds since the epoch). 0 or -ENOENT: it never comes. */
int calendar_next(const struct calendar *c, uint64_t after_usec, uint64_t *ret_usec);
/* The same, where the last run was at ran_usec, not after after_usec. A local time that comes twice, since a clock is
 * turned back, is over with its first coming: it and those before it are passed over where the last run was then. */
int calendar_next_run(const struct calendar *c, uint64_t after_usec, uint64_t ran_usec, uint64_t *ret_usec);
