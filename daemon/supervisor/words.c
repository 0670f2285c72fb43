/* SPDX-License-Identifier: Apache-2.0
 *
 * words.c: reads the pipe that is an executor's stdout and stderr.
 * Owns the reading end. [loop]
 * Keeps: it never blocks, and takes no more than TURN_MAX in a turn of the loop. Unwanted text is read all the same, so
 * no plugin waits for the log.
 * Does not know which job has written what: all of an executor have one pipe. */
#include "supervisor/words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/escape.h"
#include "far-end/far-end.h"

#define PIECE    4096u
#define TURN_MAX (8u * 1024u)  /* of a turn of the loop, in which others wait */
#define PIPE_MAX (64u * 1024u) /* what a pipe holds: all that was said before it is asked for */

static void line_ends(struct words *w)
{
    const struct log_about about = {.uid = &w->uid};

    w->line[w->n] = 0;
    if (w->n) {
        uint32_t i = w->n_lines++ % WORDS_LINES;

        log_event(LOG_KIND_EXECUTOR_SAYS, LOG_INFO, &about, "executor %u: %s", w->number, w->line);
        escape_text(w->last[i].text, sizeof(w->last[i].text), w->line);
        w->last[i].usec = clock_monotonic_usec();
    }
    w->n = 0;
}

/* At most so many bytes, in whole pieces. True: there may be more. */
static bool read_pieces(struct words *w, size_t most)
{
    char piece[PIECE];
    ssize_t n = PIECE;

    for (size_t all = 0; all < most && n > 0; all += (size_t)MAX(n, 0)) {
        n = far_end_read(w->pipe, piece, sizeof(piece));
        for (ssize_t i = 0; i < n; i++) {
            if (piece[i] == '\n')
                line_ends(w);
            else if (w->n < WORDS_LINE - 1)
                w->line[w->n++] = piece[i] ? piece[i] : ' ';
        }
    }
    if (n == 0 && w->event)
        event_del(w->event); /* all of its processes are gone */
    return n > 0;
}

static void on_readable(evutil_socket_t fd, short what, void *userdata)
{
    struct words *w = userdata;

    if (read_pieces(w, TURN_MAX) && far_end_strange(w->pipe)) /* the kernel does not say it again */
        event_active(w->event, EV_READ, 0);
}

static void on_ready(void *context)
{
    on_readable(-1, EV_READ, context);
}

int words_init(struct words *w, struct event_base *base, struct far_ends *far_ends, uint32_t number, uint32_t uid,
               int *ret_fd)
{
    int pair[2];

    *w = (struct words){.fd = -1, .number = number, .uid = uid};
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    w->fd = pair[0];
    *ret_fd = pair[1];
    /* the other end may wait: then it is the plugin that does */
    if (fcntl(w->fd, F_SETFL, O_NONBLOCK) == 0 && far_end_new(&w->pipe, far_ends, uid, w->fd, on_ready, w) == 0)
        w->event =
            event_new(base, w->fd, EV_READ | EV_PERSIST | (far_end_strange(w->pipe) ? EV_ET : 0), on_readable, w);
    if (w->event && event_add(w->event, NULL) == 0)
        return 0;
    close_fd(TAKE_FD(*ret_fd));
    words_deinit(w);
    return -ENOMEM;
}

void words_deinit(struct words *w)
{
    if (w->pipe) {
        (void)read_pieces(w, PIPE_MAX);
        line_ends(w);
    }
    if (w->event)
        event_free(w->event);
    w->event = NULL;
    if (!w->pipe)
        close_fd(w->fd);
    w->pipe = far_end_close(w->pipe, true);
    w->fd = -1;
}

void words_last(struct words *w, uint64_t since_usec, char *ret, size_t size)
{
    uint32_t n = MIN(w->n_lines, WORDS_LINES), first;
    size_t room = size, at = 0;

    *ret = 0;
    if (!w->pipe)
        return;
    (void)read_pieces(w, PIPE_MAX);
    line_ends(w);
    n = MIN(w->n_lines, WORDS_LINES);
    /* from the last one back, as many as fit */
    for (first = w->n_lines; first > w->n_lines - n; first--) {
        size_t length = strlen(w->last[(first - 1) % WORDS_LINES].text) + 2;

        if (w->last[(first - 1) % WORDS_LINES].usec < since_usec || length + 1 > room)
            break;
        room -= length;
    }
    for (; first < w->n_lines && at < size; first++)
        at += (size_t)snprintf(ret + at, size - at, "%s%s", at ? "; " : "",
                               w->last[first % WORDS_LINES].text + strspn(w->last[first % WORDS_LINES].text, " "));
}
