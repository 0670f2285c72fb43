/* SPDX-License-Identifier: Apache-2.0
 *
 * demangle.h: names of C++ functions as people write them, in text that an executor has said. One thread.
 *
 * demangle_note() for each text, demangle_run() once, then demangle_put() for each text. A name that cannot be read
 * stays as it is: one that is cut off or none, or one with a text longer than DEMANGLE_MAX. Where the library of C++ is
 * missing, all names stay as they are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

#define DEMANGLE_FROM  1024u         /* bytes of a name that is looked at */
#define DEMANGLE_MAX   512u          /* of what it becomes, with NUL */
#define DEMANGLE_NAMES 65536u        /* different ones; more are left as they are */
#define DEMANGLE_ROOM  (64ull << 20) /* bytes of memory, for all of them */
#define DEMANGLE_SEC   1u            /* CPU time, for all of them */

struct demangle_name;

struct demangle {
    void *by_name;
    struct demangle_name **names;
    size_t n, room;
    char *texts; /* DEMANGLE_MAX bytes each, in the order of names; NULL: not run */
};

/* Takes the names in it. 0 or -ENOMEM. */
int demangle_note(struct demangle *d, const char *text);
/* Reads them all. */
void demangle_run(struct demangle *d);
/* Whether a name is not to stay as it is. After demangle_run(). */
bool demangle_has(const struct demangle *d);
/* Appends the text, each name as people write it. No printable character is new in it but blanks and those of C++, and
 * there is no `;`. 0 or -ENOMEM. */
int demangle_put(const struct demangle *d, const char *text, struct buffer *to);
void demangle_deinit(struct demangle *d);

/* All of that for one text. Appends it, without NUL. 0 or -ENOMEM. Returns when the child process has ended. */
int demangle_text(const char *text, struct buffer *to);
