/* SPDX-License-Identifier: Apache-2.0
 *
 * words.h: what an executor writes to its stdout and stderr: a line of the log each, and the last ones for whoever asks
 * what it died of. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define WORDS_LINE  256u /* bytes of a line, with NUL: the rest is left out */
#define WORDS_LINES 3u   /* that are kept */

struct words {
    int fd; /* -1: none */
    struct event *event;
    uint32_t number, uid;  /* of the executor */
    char line[WORDS_LINE]; /* that has no end yet .. */
    size_t n;              /* .. so long */
    struct {
        char text[WORDS_LINE];
        uint64_t usec; /* when it came, CLOCK_MONOTONIC */
    } last[WORDS_LINES];
    uint32_t n_lines;
};

/* *ret_fd: the end to write to, which the caller owns. 0 or a negative errno. */
int words_init(struct words *w, struct event_base *base, uint32_t number, uint32_t uid, int *ret_fd);
/* Takes what is there, and gives up the rest. */
void words_deinit(struct words *w);

/* The lines that came since then, "; " between: the last ones where not all fit; "" where there are none. */
void words_last(struct words *w, uint64_t since_usec, char *ret, size_t size);
