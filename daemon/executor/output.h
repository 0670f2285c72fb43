/* SPDX-License-Identifier: Apache-2.0
 *
 * output.h: the output of one job, in place in the shared memory.
 *
 * Output begins in the slot's small area, which is enough for most jobs. When it outgrows the area, it moves into the
 * first chunk. From then on all output is chunks, each sent when full, and the small area stays empty. So the order is
 * always that of layout.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/output-to.h"
#include "ring/layout.h"

struct slot;

struct output {
    /* If set, all output goes to a part of an arena, and of the members below only `used` is in use. */
    uint8_t *place; /* NULL: no */
    size_t place_size;
    struct output_to to; /* if on, all output goes to a descriptor */
    bool direct;         /* the function may write there; else it writes to `scratch`, and commits are copied */
    bool overflow;       /* it wanted more room than there is */
    uint8_t *scratch;
    size_t scratch_size;
    uint64_t sent;       /* bytes in chunks that wsd has been given */
    uint32_t small_at;   /* where it begins in the small area: after the output of the bundle's earlier jobs */
    uint32_t small_used; /* bytes in the small area from there */
    bool chunked;        /* the small area is over */
    /* the open run; n_chunks 0: none */
    uint32_t chunk, n_chunks;
    size_t used;
    uint64_t serial;
    uint32_t n_next; /* chunks to ask for next time */
    /* runs that were sent and perhaps not released yet */
    uint32_t n_held, held_chunks;
    struct {
        uint64_t serial;
        uint16_t chunk, n;
    } held[RING_JOB_CHUNKS];
};

void output_init(struct output *o, uint32_t small_at);
void output_place(struct output *o, void *place, size_t size, bool direct);

/* All [job's output_lock]; reserve and flush may wait for chunks until the job is cancelled. */
void *output_reserve(struct slot *s, size_t min, size_t *ret_size); /* NULL: cancelled */
void output_commit(struct slot *s, size_t size);
int output_flush(struct slot *s); /* 0 or -ECANCELED */

/* Sends what is left in chunks. Returns the totals for the answer. Never waits. */
void output_end(struct slot *s, uint64_t *ret_total, uint32_t *ret_small);
