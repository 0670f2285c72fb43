/* SPDX-License-Identifier: Apache-2.0
 *
 * dead.h: durable jobs that are out of retries (results.c). [loop]
 */
#pragma once

#include "table/interface.h"

struct disk_request;

/* A request to queue a dead job (out of retries) again, or to forget it. Embedded in the asker's object. */
struct dead_query {
    struct disk_request *request;                                     /* NULL: answered */
    void (*answer)(struct dead_query *q, int code, const char *text); /* code 0: done; else an exit code and words */
};
/* Returns 0: answer will be called; -ENOENT: there is no such job; -EBUSY: another request for it is under way;
 * -EAGAIN: wsd is draining; -ENOMEM. uid, by: as in jobs_batch_cancel(). */
int jobs_dead(struct jobs *jobs, const uint8_t id[16], uint32_t uid, uint32_t by, bool requeue, struct dead_query *q);
void jobs_dead_forget(struct dead_query *q);
