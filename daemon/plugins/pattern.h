/* SPDX-License-Identifier: Apache-2.0
 *
 * pattern.h: one line of a `grep -E` pattern, made ready for glibc's regcomp() and for quick refusals.
 * All calls [any]; a pattern is constant once it was made.
 */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pattern {
    char *source; /* the pattern in the words of REG_EXTENDED */
    bool literal; /* nothing but the bytes of `must` */
    char *must;   /* bytes that each matching line has; "" where none are known */
    size_t must_size;
    uint32_t added; /* bytes and sets by repeats that are written out */
    uint32_t empty; /* the longest row of what may match nothing, written out */
};

/* Groups in groups. regcomp() calls itself for each, and does not look at its stack. */
#define PATTERN_DEPTH_MAX 1000u

/* Repeats in repeated groups: hyperscan takes twice as long for each. */
#define PATTERN_NESTED_MAX 16u
/* Bytes and sets that repeats add when they are written out. More would cost gigabytes, in hyperscan and in regcomp(). */
#define PATTERN_ADDED_MAX 40000u

/* Pieces in a row that may match nothing, written out, such as 1,000 of a?: the time and memory of regcomp() grow with
 * the square. An anchor counts as 60 of them: 17 in a row are too many. */
#define PATTERN_EMPTY_MAX     1000u
#define PATTERN_ANCHOR_WEIGHT 60u

/* What regcomp() takes and grep refuses. */
enum {
    PATTERN_E_CLASS = 1, /* [:space:] without the outer brackets */
    PATTERN_E_DEPTH,     /* beyond PATTERN_DEPTH_MAX */
    PATTERN_E_NESTED,    /* beyond PATTERN_NESTED_MAX */
    PATTERN_E_LARGE,     /* beyond PATTERN_ADDED_MAX */
};

/* 0, PATTERN_E_* or -ENOMEM; nothing to deinit unless 0. fold: letters match in both cases, so that no bytes are
 * known. */
int pattern_init(struct pattern *pattern, const char *text, size_t size, bool fold);
/* The bytes themselves, as with grep -F. 0 or -ENOMEM. */
int pattern_init_fixed(struct pattern *pattern, const char *text, size_t size, bool fold);
void pattern_deinit(struct pattern *pattern);
