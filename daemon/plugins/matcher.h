/* SPDX-License-Identifier: Apache-2.0
 *
 * matcher.h: the lines of a text that match any of some `grep -E` or `grep -F` patterns, in the C locale.
 * A matcher is constant once it was made, but for its cache; any number of tasks may use it at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/common.h"
#include "plugins/pattern.h"
#include "plugins/scanner.h"

struct matcher {
    struct wsd_job *job; /* asked whether it was cancelled */
    struct pattern *patterns;
    size_t n_patterns;
    bool fold, words, fixed; /* -i, -w, -F; set before matcher_init() */
    bool places;             /* matcher_places() will be called; set before matcher_init() */
    bool always;             /* every line matches */
    bool asks;               /* what the scanner finds may be no match: the C library knows */
    struct scanner *scanner; /* NULL: the C library matches all */
    struct cache sets;
};

/* Each line of the text is a pattern. 0, or the job's exit code after wsd_job_fail(). Deinit in either case. [a task] */
int matcher_init(struct matcher *matcher, const char *text);
void matcher_deinit(struct matcher *matcher);

/* A line matches, without its newline; or a place in one. Other than 0 ends the search. */
typedef int (*matcher_found)(void *arg, size_t begin, size_t end);

/* Calls found() for each line that matches, in order. The last line may lack its newline. 0, what found() returned, or a
 * negative errno: -ECANCELED if the job should end. [any] */
int matcher_search(struct matcher *matcher, const char *data, size_t size, matcher_found found, void *arg);

/* Calls found() for each place in a line that matches, the longest there, in order, but for empty ones: grep -o. Results
 * as of matcher_search(). [any] */
int matcher_places(struct matcher *matcher, const char *line, size_t size, matcher_found found, void *arg);

/* Newlines in the text. */
uint64_t count_newlines(const char *data, size_t size);
