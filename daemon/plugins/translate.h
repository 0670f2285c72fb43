/* SPDX-License-Identifier: Apache-2.0
 *
 * translate.h: from the language of regcomp(REG_EXTENDED), as pattern.h gives it, to that of hyperscan.
 * All calls [any]; a translation is constant once it was made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes and sets of one text when its repeats are written out. More would cost gigabytes, here and in the C library. */
#define TRANSLATION_POSITIONS_MAX 40000u
/* Groups in groups. */
#define TRANSLATION_DEPTH_MAX 200u

struct translation {
    char **texts; /* the alternatives outside of groups, each an expression of its own */
    size_t n_texts;
    size_t n_rich;      /* texts that are more than bytes */
    bool exact;         /* false: each line that matches has a match of the texts, but others may have one too */
    bool always;        /* every line matches */
    uint64_t positions; /* of the largest text */
};

/* What is not translated. */
enum {
    TRANSLATION_E_SYNTAX = 1, /* left to regcomp(): wrong, or beyond what the translation knows */
    TRANSLATION_E_LARGE,      /* beyond TRANSLATION_POSITIONS_MAX: nothing is to take it */
};

/* fold: letters match in both cases. words: a match has no word character at either side, as with grep -w.
 * 0, TRANSLATION_E_*, or -ENOMEM; nothing to deinit unless 0. */
int translation_init(struct translation *translation, const char *source, bool fold, bool words);
void translation_deinit(struct translation *translation);
