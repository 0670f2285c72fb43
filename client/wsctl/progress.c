/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c: the bar.
 * Owns the last line of the terminal at stderr. One thread.
 * Keeps: nothing is written where stderr is no terminal; what is drawn is taken away again.
 * Does not measure anything. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"

#define REDRAW_USEC 100000u

static bool on, drawn, stdout_too;
static uint64_t last_usec;

/* What was to be drawn last, and is not on the screen: it was too soon, or something else was written there. */
static struct {
    bool waits;
    char label[24];
    uint64_t done, total, failed;
} last;

void progress_init(bool wanted)
{
    const char *term = getenv("TERM");

    on = wanted && isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
    stdout_too = isatty(STDOUT_FILENO);
}

bool progress_on(void)
{
    return on;
}

static void put_text(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        on = false;
}

void progress_clear(void)
{
    if (drawn)
        put_text("\r\033[K");
    last.waits = last.waits || drawn;
    drawn = false;
}

void progress_clear_for_stdout(void)
{
    if (stdout_too)
        progress_clear();
}

void progress_draw(const char *label, uint64_t done, uint64_t total, uint64_t failed)
{
    char line[512], bar[128], numbers[96], shown[21];
    struct winsize size = {0};
    uint64_t now;
    size_t width, room, filled;

    if (!on)
        return;
    if (label != last.label)
        snprintf(last.label, sizeof(last.label), "%.20s", label);
    last.done = done;
    last.total = total;
    last.failed = failed;
    last.waits = (now = clock_monotonic_usec()) - last_usec < REDRAW_USEC;
    if (last.waits)
        return;
    last_usec = now;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
        size.ws_col = 80;
    if (total > 0)
        snprintf(numbers, sizeof(numbers), "%" PRIu64 "/%" PRIu64, done, total);
    else
        snprintf(numbers, sizeof(numbers), "%" PRIu64, done);
    if (failed > 0)
        snprintf(numbers + strlen(numbers), sizeof(numbers) - strlen(numbers), ", %" PRIu64 " failed", failed);

    escape_text(shown, sizeof(shown), label);
    room = strlen(numbers) + 30;
    width = size.ws_col > room ? size.ws_col - room : 0;
    if (width > sizeof(bar) - 1)
        width = sizeof(bar) - 1;
    if (total > 0 && width > 4) {
        filled = done >= total ? width : (size_t)((double)width * (double)done / (double)total);
        memset(bar, '.', width);
        memset(bar, '#', filled);
        bar[width] = 0;
        snprintf(line, sizeof(line), "\r%s [%s] %s\033[K", shown, bar, numbers);
    } else {
        snprintf(line, sizeof(line), "\r%s %s\033[K", shown, numbers);
    }
    put_text(line);
    drawn = true;
}

int progress_timeout(int msec)
{
    uint64_t now, due = last_usec + REDRAW_USEC;

    if (!on || !last.waits)
        return msec;
    now = clock_monotonic_usec();
    if (now >= due) {
        progress_draw(last.label, last.done, last.total, last.failed);
        return msec;
    }
    int left = (int)((due - now + 999) / 1000);
    return msec < 0 || left < msec ? left : msec;
}
