/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c: writes log lines.
 * Owns the level and the choice of target, both set once before threads start. [any]
 * Keeps: a line is written with one system call, so lines of several threads do not mix.
 * Does not rotate, filter by rate, or log what jobs say. */
#include "base/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

static const char *program_name = "wsd"; /* [const after init] */
static bool to_journal;                  /* [const after init] */
static int max_level = LOG_INFO;         /* [const after init] */

void log_init(const char *program)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    program_name = program;
    to_journal = stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
                 st.st_dev == dev && st.st_ino == ino;
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

void log_write(int level, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (level > max_level)
        return;
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (n < 0)
        return;
    if (to_journal) {
        sd_journal_send("PRIORITY=%i", level, "MESSAGE=%s", line, NULL);
        return;
    }
    struct iovec v[] = {
        {.iov_base = (void *)(uintptr_t)program_name, .iov_len = strlen(program_name)},
        {.iov_base = (void *)(uintptr_t) ": ", .iov_len = 2},
        {.iov_base = line, .iov_len = strlen(line)},
        {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1},
    };
    if (writev(STDERR_FILENO, v, 4) < 0)
        return; /* there is nobody left to tell */
}

int error_trace(const char *file, int line, int answer)
{
    log_error("unexpected answer %d at %s:%d", answer, file, line);
    return -ENOTRECOVERABLE;
}
