/* SPDX-License-Identifier: Apache-2.0
 *
 * words.h: what an executor writes to its stdout and stderr. Each line goes to the log; the last ones are kept, to
 * explain its end. Everything here is [loop].
 */
#pragma once

#include <event2/event.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

#define WORDS_LINE  256u /* bytes of a line, with NUL; the rest is cut off */
#define WORDS_LINES 3u   /* lines that are kept */

struct far_end;
struct far_ends;

struct words {
    int fd;
    struct far_end *pipe; /* the same; NULL: none */
    struct event *event;
    uint32_t number, uid;  /* of the executor */
    char line[WORDS_LINE]; /* the incomplete line */
    size_t n;              /* its length */
    struct {
        char text[WORDS_LINE];
        uint64_t usec; /* when it came, CLOCK_MONOTONIC */
    } last[WORDS_LINES];
    uint32_t n_lines;
};

/* *ret_fd: the end to write to, which the caller owns. Returns 0 or a negative errno. */
int words_init(struct words *w, struct event_base *base, struct far_ends *far_ends, uint32_t number, uint32_t uid,
               int *ret_fd);
/* Reads what is there, and closes. */
void words_deinit(struct words *w);

/* The lines that came since then, separated by "; ": the last ones if not all fit; "" if there are none. */
void words_last(struct words *w, uint64_t since_usec, char *ret, size_t size);
