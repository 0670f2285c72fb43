/* SPDX-License-Identifier: Apache-2.0
 *
 * signals.c: Ctrl-C: the first cancels, the second quits.
 * Owns the handlers and a pipe that wakes the poll loop; process-wide, as signals are.
 * Keeps: no race between looking and sleeping; a second signal gets through even where a write blocks. */
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/code.h"
#include "outfile.h"

static int pipe_fds[2] = {-1, -1};
static volatile sig_atomic_t seen;
static void (*before_quitting)(void);
static uint64_t impatient_usec; /* CLOCK_MONOTONIC; 0: the first has not come, or patience begins anew */

static void on_signal(int signal)
{
    int saved = errno;

    if (seen++) {
        if (before_quitting && seen == 2) /* it may block, too: then the next one quits */
            before_quitting();
        outfile_remove_all();
        _exit(CODE_CANCELLED);
    }
    if (write(pipe_fds[1], "", 1) < 0) {
        outfile_remove_all();
        _exit(CODE_CANCELLED);
    }
    errno = saved;
}

int signals_init(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;

    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup, background jobs */
            sigaction(signals[i], &action, NULL);
    return 0;
}

void signals_before_quitting(void (*function)(void))
{
    before_quitting = function;
}

int signals_fd(void)
{
    return pipe_fds[0];
}

bool signals_take(void)
{
    char c;

    return read(pipe_fds[0], &c, 1) == 1;
}

int signals_out_of_patience(void *unused)
{
    uint64_t now = clock_monotonic_usec();

    if (seen && !impatient_usec)
        impatient_usec = now + SIGNALS_PATIENCE_USEC;
    return impatient_usec && now >= impatient_usec;
}

void signals_be_patient(void)
{
    impatient_usec = 0;
}
