/* SPDX-License-Identifier: Apache-2.0
 *
 * cancels.h: durable jobs that one request has cancelled: it is answered when that is on disk. [loop]
 */
#pragma once

#include "jobs/jobs.h"

/* Embedded in the asker's object; cancels_init() before all else. */
struct cancels {
    struct list waiting;             /* those that are to be on disk */
    uint64_t n_unwritten;            /* those that cannot be written; after a failed cancels_add(), too */
    char *why;                       /* of the first one; NULL: none, or no memory */
    void (*over)(struct cancels *c); /* the last of `waiting` has gone. May free c */
};

void cancels_init(struct cancels *c, void (*over)(struct cancels *c));
/* Follows this cancelled job. Only for one of which jobs_watch_cancelled() says that it has to be. */
void cancels_add(struct cancels *c, struct jobs *jobs, const uint8_t id[16], uint32_t uid);
/* Follows none any more: over() does not come. */
void cancels_deinit(struct cancels *c);
/* Words for n_unwritten, which is not 0. */
const char *cancels_words(const struct cancels *c);
