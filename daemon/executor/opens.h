/* SPDX-License-Identifier: Apache-2.0
 *
 * opens.h: requests under way for files that wsd has the submitting client open for a job.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* One request, on the stack of the task that waits. */
struct open_wait {
    struct list link; /* [opens lock] */
    uint32_t serial, slot, generation;
    bool answered; /* [opens lock] */
    int result;    /* [opens lock] a descriptor or a negative errno */
};

struct opens {
    pthread_mutex_t lock;
    struct list waiting;  /* [lock] */
    uint32_t last_serial; /* [lock] */
};

void opens_init(struct opens *o);

/* Announces a request and names it in w->serial; opens_end() must follow. [worker] */
void opens_begin(struct opens *o, struct open_wait *w, uint32_t slot, uint32_t generation);
bool opens_answered(struct opens *o, struct open_wait *w); /* [worker] */
/* Withdraws the request. Returns the result, or -ECANCELED if there was no answer. [worker] */
int opens_end(struct opens *o, struct open_wait *w);

/* Passes on an answer: error 0 and a descriptor (taken over), or a positive errno. serial RING_NONE: it answers all
 * requests of the job. Drops an answer to a request that was withdrawn. [control thread] */
void opens_answer(struct opens *o, uint32_t slot, uint32_t generation, uint32_t serial, uint32_t error, int fd);
