/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h: the log of a daemon: to stderr, or to the journal where journal.h is asked for it.
 * One line a call, no newline at its end. Levels are syslog's. [any]
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <syslog.h>

struct iovec;

/* program: what lines on stderr begin with. [before threads] */
void log_init(const char *program);
/* Lines go there instead, as fields of the journal: a name, '=' and a value each. [before threads] */
void log_set_journal(void (*send)(const struct iovec *fields, int n));
void log_set_level(int level);
int log_level(void);
/* "err", "warning", "notice", "info", "debug", or a number: the level, else -EINVAL. */
int log_level_parse(const char *text);

__attribute__((format(printf, 2, 3))) void log_write(int level, const char *format, ...);

/* Kinds of lines that an administrator looks for. Each has its MESSAGE_ID (log.c), which packaging/catalog/wsd.catalog
 * explains. */
enum log_kind {
    LOG_KIND_NONE = 0, /* has no MESSAGE_ID and no limit */
    LOG_KIND_JOB_SAYS, /* what a job says by wsd_job_log(): to the journal only */
    LOG_KIND_JOB_CRASHED,
    LOG_KIND_JOB_DEAF, /* heeds no cancel: its executor is replaced */
    LOG_KIND_QUARANTINE,
    LOG_KIND_EXECUTOR_ENDED, /* and is replaced */
    LOG_KIND_EXECUTOR_HANGS,
    LOG_KIND_CONFIGURATION, /* was refused */
    LOG_KIND_PLUGIN_REFUSED,
    LOG_KIND_ADMINISTRATOR,   /* an action that affects other users, or all: never left out */
    LOG_KIND_PERSON,          /* the person that a client names as asking for a change */
    LOG_KIND_LIMIT,           /* was reached: something was refused for now */
    LOG_KIND_UNCONFINED,      /* a sandbox does not hold */
    LOG_KIND_STORE,           /* takes nothing */
    LOG_KIND_CONNECTION,      /* was refused, or closed for what it said */
    LOG_KIND_SCHEDULE,        /* a run was refused or skipped */
    LOG_KIND_EXECUTOR_SPOILT, /* by its jobs, and is replaced */
    LOG_KIND_EXECUTOR_SAYS,   /* what plugins, or what they call, write to stdout and stderr */
    LOG_KIND_RELOADED,        /* a plugin was loaded anew, or could not be */
    LOG_KINDS
};

/* What a line is about: fields of the journal. */
struct log_about {
    const uint8_t *job;            /* 16 bytes: JOB_ID; NULL: of none */
    const char *plugin, *function; /* PLUGIN, FUNCTION; NULL: of none */
    const uint32_t *uid;           /* USER; NULL: no user's */
};

/* At most LOG_RATE_LINES lines of a kind within LOG_RATE_USEC. The rest is counted, and the next line gives their
 * number. */
#define LOG_RATE_LINES 40u
#define LOG_RATE_USEC  10000000u
struct log_rate {
    uint64_t since_usec; /* 0: nothing yet */
    uint32_t n;
    uint64_t n_left_out;
};
/* Whether one more line may be written now. *ret_left_out: how many were left out since the last one written. */
bool log_rate_lets(struct log_rate *r, uint64_t now_usec, uint64_t *ret_left_out);

/* Writes a line of a kind; about may be NULL. False: it was left out. [loop] */
__attribute__((format(printf, 4, 5))) bool log_event(enum log_kind kind, int level, const struct log_about *about,
                                                     const char *format, ...);

#define log_error(...)   log_write(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_notice(...)  log_write(LOG_NOTICE, __VA_ARGS__)
#define log_info(...)    log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_DEBUG, __VA_ARGS__)

/* Turns an unexpected answer into breakage on the spot, traced (dbus-broker's habit). Returns -ENOTRECOVERABLE. */
int error_trace(const char *file, int line, int answer);
#define ERROR_UNEXPECTED(answer) error_trace(__FILE__, __LINE__, (answer))
