/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c: writes log lines.
 * Owns the level and the choice of target, set once before threads start. [any]
 * Keeps: a line is written with one system call. So lines of several threads do not mix. Nothing in a line can look
 * like another line. A flood of one kind does not fill the log.
 * Does not rotate, or look into jobs: it writes what it is given. */
#include "base/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"

/* [const after init] */
static const char *program_name = "wsd";
static void (*journal)(const struct iovec *fields, int n); /* NULL: stderr */
static int max_level = LOG_INFO;

void log_init(const char *program)
{
    program_name = program;
}

void log_set_journal(void (*send)(const struct iovec *fields, int n))
{
    journal = send;
}

void log_set_level(int level)
{
    max_level = level;
}

int log_level(void)
{
    return max_level;
}

int log_level_parse(const char *text)
{
    static const char *const names[] = {"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"};

    for (int i = 0; i < 8; i++)
        if (strcmp(text, names[i]) == 0 || (text[0] == '0' + i && !text[1]))
            return i;
    return -EINVAL;
}

static void write_line(const char *line)
{
    struct iovec v[] = {
        {.iov_base = (void *)(uintptr_t)program_name, .iov_len = strlen(program_name)},
        {.iov_base = (void *)(uintptr_t) ": ", .iov_len = 2},
        {.iov_base = (void *)(uintptr_t)line, .iov_len = strlen(line)},
        {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1},
    };
    if (writev(STDERR_FILENO, v, 4) < 0)
        return; /* a failure cannot be reported anywhere */
}

/* --- kinds -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *id; /* id: as in packaging/catalog/wsd.catalog, where it stays for ever */
    bool unlimited;
} kinds[LOG_KINDS] = {
    [LOG_KIND_JOB_SAYS] = {"job-says", "60bb89eba2f749aa970f2c6a26a269c8"},
    [LOG_KIND_JOB_CRASHED] = {"job-crashed", "25d4237c7dfe437fb80a303a58e44770"},
    [LOG_KIND_JOB_DEAF] = {"job-deaf", "4d79f94878bb4763a3d608bb7e9d1023"},
    [LOG_KIND_QUARANTINE] = {"quarantine", "aa99d1f1edec41e0891b3afd1cb3bf77"},
    [LOG_KIND_EXECUTOR_ENDED] = {"executor-ended", "624b1aa846354aa4ae750261ba44bfb0"},
    [LOG_KIND_EXECUTOR_HANGS] = {"executor-hangs", "3a4a7cae16324444bb52c5f08e2d9c53"},
    [LOG_KIND_CONFIGURATION] = {"configuration", "394344e63eea457eb278af3225e993df"},
    [LOG_KIND_PLUGIN_REFUSED] = {"plugin-refused", "3189819c58a24021a334eb6b2c1d2b1c"},
    [LOG_KIND_ADMINISTRATOR] = {"administrator", "03a8d712fa754f80b1f2442d6f1a56aa", .unlimited = true},
    [LOG_KIND_PERSON] = {"person", "7a5daf41dcb4441099819d8c1b4dc1d9"},
    [LOG_KIND_LIMIT] = {"limit", "9a8a4606944040ebb76a25587a4e405b"},
    [LOG_KIND_UNCONFINED] = {"unconfined", "ca02e5e3701e4ff7818fd6d09d74ce1c"},
    [LOG_KIND_STORE] = {"store", "e3c2eadebbff4397a7117b3df6c0bfb8"},
    [LOG_KIND_CONNECTION] = {"connection", "6fa7c3a4d4064bc5bfe6d0334c0f8d59"},
    [LOG_KIND_SCHEDULE] = {"schedule", "5a9ab4e778974cf59ac471646f9aa1e0"},
    [LOG_KIND_EXECUTOR_SPOILT] = {"executor-spoilt", "3265e042b5fc4480a1db35825793515f"},
    [LOG_KIND_EXECUTOR_SAYS] = {"executor-says", "990824f66e574199b957a398c6f9d72c"},
    [LOG_KIND_RELOADED] = {"reloaded", "a46df5376243418c9860b49421bcac6e"},
};

#define LINE_ROOM 1024u
#define FIELDS    7

struct fields {
    char text[FIELDS][1280];
    struct iovec v[FIELDS];
    int n;
};

__attribute__((format(printf, 2, 3))) static void add_field(struct fields *f, const char *format, ...)
{
    va_list args;
    char text[sizeof(f->text[0])];

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    escape_text(f->text[f->n], sizeof(f->text[0]), text);
    f->v[f->n] = (struct iovec){.iov_base = f->text[f->n], .iov_len = strlen(f->text[f->n])};
    f->n++;
}

static void write_fields(enum log_kind kind, int level, const struct log_about *about, const char *line)
{
    static const struct log_about nothing;
    struct fields f = {.n = 0};
    char id[33] = "";

    about = about ? about : &nothing;
    add_field(&f, "MESSAGE=%s", line);
    add_field(&f, "PRIORITY=%i", level);
    if (kinds[kind].id)
        add_field(&f, "MESSAGE_ID=%s", kinds[kind].id);
    for (int i = 0; about->job && i < 16; i++)
        snprintf(id + i * 2, 3, "%02x", about->job[i]);
    if (*id)
        add_field(&f, "JOB_ID=%s", id);
    if (about->plugin)
        add_field(&f, "PLUGIN=%.200s", about->plugin);
    if (about->function && *about->function)
        add_field(&f, "FUNCTION=%.200s", about->function);
    if (about->uid)
        add_field(&f, "USER=%u", *about->uid);
    journal(f.v, f.n);
}

/* Text of clients and plugins may be among it. */
__attribute__((format(printf, 4, 0))) static bool
write_escaped(enum log_kind kind, int level, const struct log_about *about, const char *format, va_list args)
{
    char text[LINE_ROOM], line[LINE_ROOM];

    if (vsnprintf(text, sizeof(text), format, args) < 0)
        return false;
    escape_text(line, sizeof(line), text);
    if (journal)
        write_fields(kind, level, about, line);
    else
        write_line(line);
    return true;
}

void log_write(int level, const char *format, ...)
{
    va_list args;

    if (level > max_level)
        return;
    va_start(args, format);
    write_escaped(LOG_KIND_NONE, level, NULL, format, args);
    va_end(args);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1 /* a report has hundreds of lines, and each counts */
#else
#define SANITIZED 0
#endif

#define RATES     256u /* users and kinds that are limited at the same time */
#define ALL_LINES 10u  /* times what one may, all may together */

/* Per user, so that no user's lines are left out for what another one causes. [loop] */
static struct {
    uint64_t uid; /* plus 1; 0: of no user */
    enum log_kind kind;
    struct log_rate rate;
} rates[RATES];
static struct log_rate all_rates[LOG_KINDS]; /* [loop] */

/* The one that has said nothing for the longest time gives way. */
static struct log_rate *rate_of(enum log_kind kind, const uint32_t *uid)
{
    uint64_t of = uid ? (uint64_t)*uid + 1 : 0;
    size_t oldest = 0;

    for (size_t i = 0; i < RATES; i++) {
        if (rates[i].kind == kind && rates[i].uid == of)
            return &rates[i].rate;
        if (rates[i].rate.since_usec < rates[oldest].rate.since_usec)
            oldest = i;
    }
    rates[oldest].kind = kind;
    rates[oldest].uid = of;
    rates[oldest].rate = (struct log_rate){0};
    return &rates[oldest].rate;
}

static bool lets(struct log_rate *r, uint32_t lines, uint64_t now_usec, uint64_t *ret_left_out)
{
    if (!r->since_usec || now_usec - r->since_usec >= LOG_RATE_USEC) {
        r->since_usec = now_usec;
        r->n = 0;
    }
    if (r->n >= lines) {
        r->n_left_out++;
        return false;
    }
    r->n++;
    *ret_left_out = r->n_left_out;
    r->n_left_out = 0;
    return true;
}

bool log_rate_lets(struct log_rate *r, uint64_t now_usec, uint64_t *ret_left_out)
{
    return lets(r, LOG_RATE_LINES, now_usec, ret_left_out);
}

/* Of this kind and user, and of this kind at all. */
static bool may_say(enum log_kind kind, const uint32_t *uid)
{
    uint64_t now = clock_monotonic_usec(), left_out = 0;

    if (!kinds[kind].id || kinds[kind].unlimited ||
        (kind == LOG_KIND_EXECUTOR_SAYS && (SANITIZED || max_level == LOG_DEBUG)))
        return true;
    if (!lets(rate_of(kind, uid), LOG_RATE_LINES, now, &left_out))
        return false;
    if (left_out && uid)
        log_notice("%llu more lines of the kind %s were left out, of user %u", (unsigned long long)left_out,
                   kinds[kind].name, *uid);
    else if (left_out)
        log_notice("%llu more lines of the kind %s were left out", (unsigned long long)left_out, kinds[kind].name);
    if (!lets(&all_rates[kind], LOG_RATE_LINES * ALL_LINES, now, &left_out))
        return false;
    if (left_out)
        log_notice("%llu more lines of the kind %s were left out, of many users", (unsigned long long)left_out,
                   kinds[kind].name);
    return true;
}

bool log_event(enum log_kind kind, int level, const struct log_about *about, const char *format, ...)
{
    va_list args;

    if (level > max_level || (kind == LOG_KIND_JOB_SAYS && !journal))
        return false;
    if (!may_say(kind, about ? about->uid : NULL))
        return false;
    va_start(args, format);
    bool said = write_escaped(kind, level, about, format, args);
    va_end(args);
    return said;
}

int error_trace(const char *file, int line, int answer)
{
    log_error("unexpected answer %d at %s:%d", answer, file, line);
    return -ENOTRECOVERABLE;
}
