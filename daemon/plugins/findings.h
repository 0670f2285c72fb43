/* SPDX-License-Identifier: Apache-2.0
 *
 * findings.h: what `search` finds in whole lines, and how it is printed.
 * findings_search() [any, one task a piece]; the others [one task].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/common.h"
#include "plugins/matcher.h"

#define NOWHERE SIZE_MAX

/* What is printed, by grep's options. */
struct manner {
    bool invert;  /* -v */
    bool prefix;  /* names before lines */
    bool count;   /* -c */
    bool list;    /* -l */
    bool only;    /* -o */
    bool context; /* -A, -B or -C */
    size_t before, after;
};

struct match {
    uint64_t line; /* from 0, in its piece */
    size_t begin, end;
};

/* Whole lines of a window, searched by one task. */
struct piece {
    const char *data; /* of the window: begin and end are places in it */
    size_t begin, end;
    bool any;         /* one match is enough */
    uint64_t lines;   /* in the piece; not counted where it does not matter */
    uint64_t matched; /* of them */
    struct match *matches;
    size_t n_matches, n_allocated;
    int error;
};

/* What is known of one file between two windows. */
struct state {
    const char *name; /* NULL: the input */
    bool binary;
    bool binary_matched;
    bool skipped;     /* binary, with -I: what matched before does not count */
    bool done;        /* nothing more of it matters */
    uint64_t matched; /* lines */
    uint64_t lines;   /* before the next piece */
    size_t shown;     /* in the window: the end of what was printed, or NOWHERE */
    size_t after;     /* lines of context still to be printed behind it */
    uint64_t number;  /* of the last line that was printed */
};

struct printer {
    struct output output;
    struct manner manner;
    bool separate; /* something was printed: the next group of lines begins with -- */
};

/* Searches the piece; what is found, or its error, is in it. */
void findings_search(struct matcher *matcher, const struct manner *manner, struct piece *piece);

/* Prints what was found, and the context before it. window: the bytes of the window, of which the piece is some. */
void findings_print(struct printer *printer, struct state *state, const struct piece *piece);

/* Prints what context is still due, up to the end of whole lines in the window. */
void findings_print_after(struct printer *printer, struct state *state, const char *data, size_t end);

/* Where the n_max lines before a place begin, but not before `from`; and how many there are. */
size_t context_begin(const char *data, size_t from, size_t at, size_t n_max, size_t *ret_n);

/* What a file ends with: its count, or its name. */
void findings_end(struct printer *printer, const struct state *state);
