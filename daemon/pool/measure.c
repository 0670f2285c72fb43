/* SPDX-License-Identifier: Apache-2.0
 *
 * measure.c: work and span.
 * Owns the ends of children that were not joined yet, a stack.
 * Keeps: its own time is in no strand.
 * Does not know tasks: join.c and run.c say what happens. */
#include "pool/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"

struct measure_state {
    struct measure_path path; /* that this strand is on, up to its beginning */
    uint64_t since;           /* when it began */
    struct measure_path *ends;
    size_t n, room;
};

static uint64_t now_nsec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A strand has ended. The next one begins with strand_begin(). */
static void strand_end(struct measure *m)
{
    struct measure_state *s = m->state;
    uint64_t nsec = now_nsec() - s->since;

    m->work.nsec += nsec;
    m->work.strands++;
    s->path.sum.nsec += nsec;
    s->path.sum.strands++;
    s->path.burdened_nsec += nsec;
}

static void strand_begin(struct measure *m)
{
    m->state->since = now_nsec();
}

/* Each number is of the longest path by that number. */
static void longest(struct measure_path *p, const struct measure_path *other)
{
    p->sum.nsec = MAX(p->sum.nsec, other->sum.nsec);
    p->sum.strands = MAX(p->sum.strands, other->sum.strands);
    p->burdened_nsec = MAX(p->burdened_nsec, other->burdened_nsec);
}

void measure_root_begin(struct measure *m)
{
    m->state = calloc(1, sizeof(*m->state));
    if (m->state)
        strand_begin(m);
    else
        m->error = -ENOMEM;
}

void measure_root_end(struct measure *m)
{
    struct measure_state *s = m->state;

    if (!s)
        return;
    strand_end(m);
    m->span.nsec += s->path.sum.nsec;
    m->span.strands += s->path.sum.strands;
    m->burdened_nsec += s->path.burdened_nsec;
    free(s->ends);
    free(s);
    m->state = NULL;
}

struct measure_path measure_spawn_begin(struct measure *m)
{
    struct measure_state *s = m->state;

    if (!s)
        return (struct measure_path){.burdened_nsec = 0};
    strand_end(m);
    m->spawns++;
    const struct measure_path from = s->path;
    s->path.burdened_nsec += MEASURE_BURDEN_NSEC;
    strand_begin(m);
    return from;
}

void measure_spawn_end(struct measure *m, const struct measure_path *from)
{
    struct measure_state *s = m->state;

    if (!s)
        return;
    strand_end(m);
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 256;
        struct measure_path *ends = realloc(s->ends, room * sizeof(*ends));

        if (!ends) {
            m->error = -ENOMEM;
            room = s->room;
        } else {
            s->ends = ends;
        }
        s->room = room;
    }
    if (s->n < s->room)
        s->ends[s->n++] = s->path;
    s->path = *from;
    strand_begin(m);
}

void measure_sync(struct measure *m)
{
    struct measure_state *s = m->state;

    if (!s)
        return;
    strand_end(m);
    if (s->n > 0)
        longest(&s->path, &s->ends[--s->n]);
    strand_begin(m);
}
