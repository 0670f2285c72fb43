/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c: the output of one job: small area, then runs of chunks.
 * Owns the open run of the job; a run that was sent is wsd's. [worker, under the job's output_lock]
 * Keeps: bytes leave in the order in which they were committed. A job holds at most RING_JOB_CHUNKS chunks, so that one
 * with a stalled reader stops no other. Nothing is kept back that wsd would have to release before the job can go on.
 * Does not judge how much output is too much. */
#include "executor/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/copy.h"
#include "executor/slot.h"

#define SCRATCH     (256u * 1024u)
#define RUN_LARGEST 4u /* chunks, unless more is asked for: 256 KiB on its way while the next is filled */

void output_init(struct output *o, uint32_t small_at)
{
    o->sent = 0;
    o->small_at = small_at;
    o->small_used = 0;
    o->chunked = false;
    o->n_chunks = 0;
    o->used = 0;
    o->n_next = 1;
    o->n_held = o->held_chunks = 0;
    o->place = o->scratch = NULL;
    o->overflow = false;
    output_to_init(&o->to);
}

/* --- in a part of an arena ---------------------------------------------------------------------------------------- */

void output_place(struct output *o, void *place, size_t size, bool direct)
{
    o->place = place;
    o->place_size = size;
    o->direct = direct;
    o->scratch_size = 0;
}

static void *place_reserve(struct output *o, size_t min, size_t *ret_size)
{
    size_t room = o->place_size - o->used, wanted = MAX(min, MIN(room, (size_t)SCRATCH));

    o->overflow |= min > room;
    if (o->overflow)
        return NULL;
    if (!o->direct && o->scratch_size < wanted) {
        free(o->scratch);
        o->scratch = malloc(wanted);
        o->scratch_size = o->scratch ? wanted : 0;
    }
    *ret_size = o->direct ? room : MIN(room, o->scratch_size);
    return o->direct ? o->place + o->used : o->scratch;
}

static void place_commit(struct output *o, size_t size)
{
    if (!o->direct)
        copy_away(o->place + o->used, o->scratch, size);
    o->used += size;
}

/* --- through wsd -------------------------------------------------------------------------------------------------- */

/* Forgets the runs that wsd has released. */
static void sweep_held(struct slot *s)
{
    struct output *o = &s->output;
    uint32_t kept = 0;

    o->held_chunks = 0;
    for (uint32_t i = 0; i < o->n_held; i++)
        if (back_held(&s->shared->back, o->held[i].chunk, o->held[i].serial)) {
            o->held_chunks += o->held[i].n;
            o->held[kept++] = o->held[i];
        }
    o->n_held = kept;
}

static bool allocate_run(struct slot *s, uint32_t n)
{
    struct output *o = &s->output;

    if (o->held_chunks + n > RING_JOB_CHUNKS)
        sweep_held(s);
    if (o->held_chunks + n > RING_JOB_CHUNKS)
        return false;
    uint32_t chunk = back_alloc(&s->shared->back, n, &o->serial);
    if (chunk == RING_NONE)
        return false;
    o->chunk = chunk;
    o->n_chunks = n;
    o->used = 0;
    return true;
}

/* arg: the number of chunks that it takes at least. */
static bool allocate_any_run(struct slot *s, void *arg)
{
    uint32_t least = *(const uint32_t *)arg, n = MAX(least, s->output.n_next);

    return allocate_run(s, n) || (n > least && allocate_run(s, least));
}

static void send_run(struct slot *s)
{
    struct output *o = &s->output;
    struct back *b = &s->shared->back;
    uint32_t n = (uint32_t)((o->used + RING_CHUNK - 1) / RING_CHUNK);

    if (o->n_chunks > n)
        back_unalloc(b, o->chunk + n, o->n_chunks - n);
    o->n_chunks = 0;
    if (n == 0)
        return;
    /* there is room: each entry is at least one chunk of RING_JOB_CHUNKS */
    o->held[o->n_held].chunk = (uint16_t)o->chunk;
    o->held[o->n_held].n = (uint16_t)n;
    o->held[o->n_held].serial = o->serial;
    o->n_held++;
    o->held_chunks += n;
    o->sent += o->used;
    back_output(b, s->number, s->generation, o->chunk, n, (uint32_t)o->used);
}

static uint8_t *small(struct slot *s)
{
    return (uint8_t *)back_small(&s->shared->back, s->number) + s->output.small_at;
}

/* A new run with at least min bytes free, what is in the small area first. */
static bool next_run(struct slot *s, size_t min)
{
    struct output *o = &s->output;
    uint32_t least = (uint32_t)((o->small_used + min + RING_CHUNK - 1) / RING_CHUNK);

    if (o->n_chunks)
        send_run(s);
    /* The largest reservation after a full small area would need one chunk more than a run has. Then the small area
     * goes alone. */
    if (least > RING_RUN_MAX)
        least = 1;
    if (!slot_wait(s, allocate_any_run, &least))
        return false;
    slot_alone(s);
    o->n_next = MIN(o->n_next * 2, RUN_LARGEST);
    o->chunked = true;
    memcpy(back_chunk(&s->shared->back, o->chunk), small(s), o->small_used);
    o->used = o->small_used;
    o->small_used = 0;
    return true;
}

void *output_reserve(struct slot *s, size_t min, size_t *ret_size)
{
    struct output *o = &s->output;

    if (atomic_load_explicit(s->request.cancel, memory_order_relaxed))
        return NULL;
    if (o->place)
        return place_reserve(o, min, ret_size);
    if (o->to.on)
        return output_to_reserve(s, min, ret_size);
    if (!o->chunked && RING_SMALL - o->small_at - o->small_used >= min) {
        *ret_size = RING_SMALL - o->small_at - o->small_used;
        return small(s) + o->small_used;
    }
    while (!o->n_chunks || (size_t)o->n_chunks * RING_CHUNK - o->used < min)
        if (!next_run(s, min))
            return NULL;
    *ret_size = (size_t)o->n_chunks * RING_CHUNK - o->used;
    return (char *)back_chunk(&s->shared->back, o->chunk) + o->used;
}

void output_commit(struct slot *s, size_t size)
{
    struct output *o = &s->output;

    if (o->place) {
        place_commit(o, size);
        return;
    }
    if (o->to.on) {
        output_to_commit(s, size);
        return;
    }
    if (!o->chunked) {
        o->small_used += (uint32_t)size;
        return;
    }
    o->used += size;
    if (o->used == (size_t)o->n_chunks * RING_CHUNK)
        send_run(s);
}

int output_flush(struct slot *s)
{
    struct output *o = &s->output;

    if (atomic_load_explicit(s->request.cancel, memory_order_relaxed))
        return -ECANCELED;
    if (o->place)
        return 0;
    if (o->to.on)
        return output_to_flush(s);
    if (!o->chunked && o->small_used > 0 && !next_run(s, 0))
        return -ECANCELED;
    if (o->n_chunks && o->used > 0)
        send_run(s);
    return 0;
}

void output_end(struct slot *s, uint64_t *ret_total, uint32_t *ret_small)
{
    struct output *o = &s->output;

    if (o->n_chunks)
        send_run(s);
    free(o->scratch);
    o->scratch = NULL;
    *ret_total = o->place ? o->used : o->to.on ? o->to.written : o->sent + o->small_used;
    *ret_small = o->small_used;
}
