/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c: lines for people.
 * Owns nothing but the place that errors name. One thread.
 * Keeps: an error is one line, written at once. What goes through here is printable, whatever a user, a job or a daemon
 * called something. No other file of wsctl writes text of others to stdout or stderr.
 * Does not know JSON (json-write.c). */
#include "print.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/escape.h"
#include "proto/submit-options.h"
#include "progress.h"

#define LINE_ROOM    4096u /* bytes of a line on stderr, before they are escaped */
#define WHAT_MAX     300u  /* bytes of the name of what went wrong */
#define USERS_CACHED 64u

void print_text(const char *format, ...)
{
    char fixed[1024], shown[ESCAPE_ROOM], *text = fixed;
    _cleanup_(freep) char *longer = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(fixed, sizeof(fixed), format, args);
    va_end(args);
    if (n >= (int)sizeof(fixed)) {
        va_start(args, format);
        if (vasprintf(&longer, format, args) >= 0)
            text = longer; /* else cut */
        va_end(args);
    }
    for (size_t taken; (taken = escape_first(shown, text)) > 0; text += taken)
        fputs(shown, stdout);
}
static void put_line(const char *line)
{
    char shown[4 * LINE_ROOM];
    size_t n = escape_text(shown, sizeof(shown) - 1, line);

    shown[n++] = '\n';
    progress_clear();
    for (size_t at = 0; at < n;) {
        ssize_t w = write(STDERR_FILENO, shown + at, n - at);

        if (w < 0 && errno != EINTR)
            return; /* no reader */
        at += w > 0 ? (size_t)w : 0;
    }
}

static const char *error_where;

void ctl_error_where(const char *where)
{
    error_where = where;
}

/* The beginning and the end of what is too long to be told whole: an item may have any size. No character is cut. */
static const char *shortened(const char *text, char *buffer, size_t size)
{
    size_t n = strlen(text), head = WHAT_MAX / 2, tail = n - WHAT_MAX / 4;

    if (n <= WHAT_MAX)
        return text;
    while (head > WHAT_MAX / 2 - 4 && ((unsigned char)text[head] & 0xc0) == 0x80)
        head--;
    while (tail < n && ((unsigned char)text[tail] & 0xc0) == 0x80)
        tail++;
    snprintf(buffer, size, "%.*s...%s", (int)head, text, text + tail);
    return buffer;
}

int ctl_error(int exit, const char *what, const char *format, ...)
{
    char why[2048], line[LINE_ROOM], room[WHAT_MAX + 8];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    snprintf(line, sizeof(line), "wsctl: %.900s%s%s: %s", error_where ? error_where : "", error_where ? ": " : "",
             shortened(what, room, sizeof(room)), why);
    put_line(line);
    return exit;
}

void print_message(const char *what, const char *text)
{
    char line[LINE_ROOM], room[WHAT_MAX + 8];

    snprintf(line, sizeof(line), "%s%s%s", what ? shortened(what, room, sizeof(room)) : "", what ? ": " : "", text);
    put_line(line);
}

void print_state(enum wsd_job_state state)
{
    const char *none = getenv("NO_COLOR"), *name = wsd_job_state_name(state);
    int color = state == WSD_JOB_SUCCEEDED ? 32 : state > WSD_JOB_SUCCEEDED ? 31 : state == WSD_JOB_RUNNING ? 33 : 0;

    if (!color || (none && *none) || !isatty(STDOUT_FILENO))
        printf("%-11s", name);
    else
        printf("\033[%dm%-11s\033[0m", color, name);
}

const char *time_text(uint64_t usec, char *buffer, size_t size)
{
    time_t t = (time_t)(usec / 1000000);
    struct tm tm;

    if (!usec || !localtime_r(&t, &tm) || strftime(buffer, size, "%a %Y-%m-%d %H:%M:%S", &tm) == 0)
        snprintf(buffer, size, "-");
    return buffer;
}

const char *user_name(uint32_t uid)
{
    static struct {
        uint32_t uid;
        char name[33];
    } cache[USERS_CACHED];
    static size_t n_cached;
    const struct passwd *user;

    if (uid == UINT32_MAX)
        return "all";
    for (size_t i = 0; i < MIN(n_cached, (size_t)USERS_CACHED); i++)
        if (cache[i].uid == uid)
            return cache[i].name;

    size_t at = n_cached++ % USERS_CACHED;

    user = getpwuid(uid);
    cache[at].uid = uid;
    if (user)
        snprintf(cache[at].name, sizeof(cache[at].name), "%s", user->pw_name);
    else
        snprintf(cache[at].name, sizeof(cache[at].name), "%u", uid);
    return cache[at].name;
}

const char *duration_text(uint64_t usec, char *buffer, size_t size)
{
    if (usec < 1000)
        snprintf(buffer, size, "%" PRIu64 " us", usec);
    else if (usec < 1000000)
        snprintf(buffer, size, "%.1f ms", (double)usec / 1e3);
    else
        snprintf(buffer, size, "%.1f s", (double)usec / 1e6);
    return buffer;
}

const char *gate_text(const struct wsd_gate_info *info, char *buffer, size_t size)
{
    if (*info->tag)
        snprintf(buffer, size, "tag %s", info->tag);
    else
        snprintf(buffer, size, "%s%s%s", *info->plugin ? info->plugin : "(all)", *info->function ? ":" : "",
                 info->function);
    return buffer;
}

void job_clear_texts(struct wsd_job_info *info)
{
#define CLEAR(kind, name, ...) info->name = "";
    JOB_FIELDS(CLEAR, SUBMIT_NOTHING, SUBMIT_NOTHING)
    info->n_waits_on = info->n_awaited_by = 0;
}

const char *job_error_text(const struct wsd_job_info *info, char *buffer, size_t size)
{
    if (info->error[0])
        return info->error;
    if (info->state == WSD_JOB_FAILED)
        snprintf(buffer, size, "failed with status %d", info->exit);
    else
        snprintf(buffer, size, "%s", wsd_job_state_name(info->state));
    return buffer;
}

/* Some file systems say only when a descriptor is closed that there was no room. */
static bool is_stored(void)
{
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);

    return fd < 0 || close(fd) == 0 || errno == EINTR;
}

int print_end(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout) && is_stored())
        return 0;
    return ctl_error(CODE_IO, "stdout", "%s", strerror(errno));
}
