/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h: the log of a daemon: to the journal where systemd started us (stderr is the journal's stream), else to stderr.
 * One line a call, no newline at its end. Levels are syslog's. [any]
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <syslog.h>

/* program: what lines on stderr begin with. Looks at JOURNAL_STREAM. [before threads] */
void log_init(const char *program);
void log_set_level(int level);
int log_level(void);
/* "err", "warning", "notice", "info", "debug", or a number: the level, else -EINVAL. */
int log_level_parse(const char *text);

__attribute__((format(printf, 2, 3))) void log_write(int level, const char *format, ...);

#define log_error(...)   log_write(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)  log_write(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)    log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_DEBUG, __VA_ARGS__)

/* An answer that nobody expected becomes breakage on the spot, traced (dbus-broker's habit). Returns -ENOTRECOVERABLE. */
int error_trace(const char *file, int line, int answer);
#define ERROR_UNEXPECTED(answer) error_trace(__FILE__, __LINE__, (answer))
