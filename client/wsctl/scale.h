/* SPDX-License-Identifier: Apache-2.0
 *
 * scale.h: how a job gains from more workers. It runs inside wsctl, as with `wsctl submit --local`.
 */
#pragma once

#include <stdio.h>

#include "ctl.h"
#include "submit-options.h"

#define SCALE_WORKERS 256u /* at most */
#define SCALE_ROUNDS  3u   /* of each number of workers; the shortest counts */

/* Measures work and span, and says them. 0 or the exit code, said. */
int scale_parallelism(const struct ctl *ctl, const struct submit_options *options);

/* How long the job took on 1, 2, .. workers. */
struct scale {
    const char *name;
    unsigned n;
    uint64_t usec[SCALE_WORKERS];
};

/* Runs it on 1 to options->workers workers (0: as many as there are CPUs), and says a table. 0 or the exit code, said. */
int scale_run(const struct ctl *ctl, const struct submit_options *options, struct scale *ret);
/* Draws it as an SVG file: speed over workers, beside the line of an ideal program. Errors are the stream's. */
void scale_write(const struct scale *s, FILE *to);
