/* SPDX-License-Identifier: Apache-2.0
 *
 * texts.h: a file or the input in memory, as a whole. Reading [one task at a time]; the bytes are constant then.
 */
#pragma once

#include <stddef.h>

#include "wsd/plugin.h"

/* {.data = NULL} is an empty one. */
struct text {
    const char *data;
    size_t size;
    char *owned; /* NULL: the input, where it lies */
};

/* Reads a file; the input where name is NULL. 0 or a negative errno: -EISDIR for folders, -ECANCELED if the job should
 * end. Either way the text is to be deinitialised. */
int text_read(struct text *text, struct wsd_job *job, const char *name);

void text_deinit(struct text *text);
