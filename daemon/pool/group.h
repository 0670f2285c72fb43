/* SPDX-License-Identifier: Apache-2.0
 *
 * group.h: groups of wsd/forms.h, as the table of wsd/task.h has them, and what the forms share.
 *
 * Groups and forms are written over the spawns and syncs that plugins have, and know nothing of the engine but how many
 * workers there are. All [worker: the task that calls], unless said otherwise.
 */
#pragma once

#include <string.h>

#include "wsd/forms.h"

void group_begin(struct wsd_worker *self, struct wsd_group *group, struct wsd_group *parent);
void group_spawn(struct wsd_worker *self, struct wsd_group *group, wsd_work_fn *fn, void *arg);
int group_end(struct wsd_worker *self, struct wsd_group *group);
void group_cancel(struct wsd_group *group);          /* [any] */
bool group_cancelled(const struct wsd_group *group); /* [any] */
void group_fail(struct wsd_group *group, int error); /* the first one stays; cancels the group [any] */

/* Where a piece was spawned, by which it knows whether it was stolen. */
struct piece_origin {
    uint32_t worker, steals;
};

/* How a range is cut: into pieces of `grain`. Each time that a steal is noticed, a piece is cut to a quarter, down to
 * `least`. It is cut only if the cost so far says that smaller pieces are worth a task. */
struct partition {
    uint64_t grain, least;   /* [const] */
    _Atomic uint32_t steals; /* [atomic: relaxed; a hint] */
    _Atomic uint64_t cost;   /* of an index, in 256ths of ticks; 0: not known [atomic: relaxed; a hint] */
};
void partition_init(struct wsd_worker *self, struct partition *p, uint64_t count, uint64_t grain);
struct piece_origin partition_origin(struct wsd_worker *self, struct partition *p);
/* To be called where a piece begins: its grain from here on; *origin becomes that of the pieces it spawns. */
uint64_t partition_grain(struct wsd_worker *self, struct partition *p, uint64_t grain, struct piece_origin *origin);
/* Around the body: what it costs, where that is asked for. */
uint64_t partition_began(const struct partition *p);
void partition_ran(struct partition *p, uint64_t began, uint64_t indices);

/* Copies one element. The sizes that are common become single instructions. [any] */
static inline void element_copy(void *to, const void *from, size_t size)
{
    switch (size) {
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, size);
    }
}

/* Memory at multiples of a cache line, or NULL where there is none (or sizes overflow). [any] */
void *lines_alloc(uint64_t count, size_t size);
/* size, rounded up to cache lines; 0 where that overflows. [any] */
size_t lines_size(size_t size);
/* Of the pool. [any] */
uint32_t forms_workers(struct wsd_worker *self);
