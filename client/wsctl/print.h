/* SPDX-License-Identifier: Apache-2.0
 *
 * print.h: what goes to stdout and stderr.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/code.h"
#include "wsd/client.h"

/* One line on stderr, `wsctl: what: why`. Returns exit. */
__attribute__((format(printf, 3, 4))) int ctl_error(int exit, const char *what, const char *format, ...);
/* Where what is said from now on was found: it stands before the rest. NULL: nowhere. */
void ctl_error_where(const char *where);
/* A line of a job's: what may be NULL. */
void print_message(const char *what, const char *text);
/* A part of a line on stdout, and the rest of one with its end: all that they say is escaped (base/escape.h), ends of
 * lines too. */
__attribute__((format(printf, 1, 2))) void print_text(const char *format, ...);
#define print_line(...) (print_text(__VA_ARGS__), (void)putchar('\n'))
/* The name of a state, coloured where stdout is a terminal that wants it. */
void print_state(enum wsd_job_state state);
/* The name of a user, or "all". It is asked once for each, as the answer may come from afar. It is valid until other
 * names have been asked for. */
const char *user_name(uint32_t uid);
/* Local time, as people read it; "-" for 0. */
const char *time_text(uint64_t usec, char *buffer, size_t size);
/* "12 us", "3.4 ms", "5.6 s" */
const char *duration_text(uint64_t usec, char *buffer, size_t size);
/* The end of a word that is counted: "1 job", "2 jobs". */
static inline const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}
/* What is paused or limited: `PLUGIN:FUNCTION`, `tag NAME`, `(all)` */
const char *gate_text(const struct wsd_gate_info *info, char *buffer, size_t size);
/* Makes each text of the description empty, and its lists. */
void job_clear_texts(struct wsd_job_info *info);
/* What is wrong with a job that did not succeed: its error or its state. */
const char *job_error_text(const struct wsd_job_info *info, char *buffer, size_t size);
/* Flushes stdout. 0 or CODE_IO, said. */
int print_end(void);
