/* SPDX-License-Identifier: Apache-2.0
 *
 * spark.h: how many jobs of each function ended in a second, over the last looks of `wsctl top`, as a line of characters.
 */
#pragma once

#include "look.h"

#define SPARK_LOOKS 20u

struct sparks {
    struct buffer of; /* struct spark */
};

/* Notes what two looks tell. Returns 0 or -ENOMEM. */
int sparks_note(struct sparks *s, const struct look *before, const struct look *now);
/* The line of a function: one character a look, the newest last, and the highest one for the most of them. */
void sparks_text(const struct sparks *s, const struct look_function *f, char ret[static SPARK_LOOKS + 1]);
void sparks_deinit(struct sparks *s);
