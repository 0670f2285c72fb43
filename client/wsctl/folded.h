/* SPDX-License-Identifier: Apache-2.0
 *
 * folded.h: folded stacks (daemon/executor/profile-text.h) as executors wrote them: read, checked, merged, and seen as a tree
 * of frames. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"

#define FOLDED_LINE   262144u             /* bytes of a line: an executor writes at most half of that */
#define FOLDED_FRAMES 512u                /* of a stack, with its subject and with what it was joined to */
#define FOLDED_STACKS 1000000u            /* different ones */
#define FOLDED_COUNT  ((uint64_t)1 << 33) /* samples in all; times 10^9 they fit 63 bits */

/* Ends a frame in folded_stack.text, which sorts below any character of a name: so stacks with the same outer frames stand
 * together. */
#define FOLDED_END '\1'

struct folded_stack {
    uint64_t count;
    char text[]; /* the subject, then the frames, the outermost first; printable ASCII but for FOLDED_END between two */
};

struct folded {
    const char *only; /* PLUGIN or PLUGIN:FUNCTION: other subjects are left out; NULL: none is */
    struct buffer rest;
    void *by_text;
    struct folded_stack **stacks; /* sorted after folded_end() */
    size_t n, room;
    uint64_t samples; /* the sum of all counts */
    uint64_t n_bad;   /* lines that were none, and were left out */
};

/* The next bytes of an executor's text. 0 or -ENOMEM. */
int folded_add(struct folded *f, const void *data, size_t size);
/* What comes next is another executor's. */
void folded_break(struct folded *f);
/* All is there: reads the names of C++ (base/demangle.h), and sorts. 0 or -ENOMEM. */
int folded_end(struct folded *f);
void folded_deinit(struct folded *f);

/* A frame of the tree, and those that it called. */
struct call_frame {
    const char *name; /* not ended by NUL */
    size_t size;
    uint64_t self, total;
    struct call_frame *child, *next;
};
/* The tree below `ret`, which has the name "all". 0 or -ENOMEM. After folded_end(); it lives as long as f. */
int folded_tree(const struct folded *f, struct call_frame **ret);
struct call_frame *call_frame_free(struct call_frame *frame);

/* One function. */
struct hot {
    const char *name; /* not ended by NUL */
    size_t size;
    uint64_t self, total; /* samples in it; in it or below it */
    size_t seen;          /* the last stack that it was counted in, plus 1 */
};
/* All functions, those with most samples of their own first. The subjects are none. 0 or -ENOMEM. The caller frees. */
int folded_hot(const struct folded *f, struct hot **ret, size_t *ret_n);

/* As flamegraph.pl takes it. */
void folded_write(const struct folded *f, FILE *to);
