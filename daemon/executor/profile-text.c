/* SPDX-License-Identifier: Apache-2.0
 *
 * profile-text.c: samples as folded stacks, those of stolen tasks below their spawners'.
 * Owns copies of what it needs; the samples are profile.c's.
 * A spawner is looked for in the victim's own samples. Its frame stays on the victim's stack until the task is joined. So
 * the outer frames that all samples of the victim share, from the steal to the sample of the task, hold the spawner's.
 * Where there is none from that time, the nearest one of the same origin takes its place.
 * Keeps: no other thread's stack is read. Names are looked up once for each address.
 * The innermost of them is left out, unless some sample goes deeper there.
 * Does not know which of the frames that are left is the spawner's: a function that the spawner called afterwards, and
 * that has called others, may be there too. */
#include "executor/profile-text.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "executor/profile.h"
#include "host/backtrace.h"
#include "host/run.h"
#include "pool/trace.h"

#define NAME_ROOM   256u /* C++ has long ones */
#define STACK_MAX   384u /* frames of one line */
#define JOINS_MAX   16u  /* stolen tasks of which one was spawned by the other */
#define WITNESS_MAX 8u   /* samples of a victim that are looked at for one of a thief */
#define COUNT_ROOM  24u

/* A name, and its number: the same name has the same number. */
struct name {
    uint32_t number;
    char text[];
};

enum { NAME_ENGINE, NAME_CUT, NAME_BROKEN, NAME_STOLEN, NAMES_OWN };

struct symbol {
    uintptr_t address;
    uint32_t name;
    enum backtrace_where where;
};

struct taken {
    const uintptr_t *sample;
    uint32_t worker;
};

/* A stack by names, the outermost first. */
struct stack {
    uint64_t count;
    uintptr_t subject;
    uint32_t n, names[];
};

struct text {
    struct taken *samples; /* sorted by worker and time */
    size_t n_samples, samples_room;
    struct symbol *symbols; /* sorted by address */
    size_t n_symbols;
    void *by_name;
    struct name **names;
    size_t n_names, names_room;
    struct stack **stacks;
    size_t n_stacks;
};

/* --- names -------------------------------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* UINT32_MAX: no memory. */
static uint32_t name_number(struct text *t, const char *text)
{
    struct name *n = malloc(sizeof(*n) + strlen(text) + 1), **found;

    if (!n)
        return UINT32_MAX;
    memcpy(n->text, text, strlen(text) + 1);
    if (t->n_names == t->names_room) {
        size_t room = t->names_room ? 2 * t->names_room : 256;
        struct name **names = realloc(t->names, room * sizeof(*names));

        if (names) {
            t->names = names;
            t->names_room = room;
        }
    }
    found = t->n_names < t->names_room ? tsearch(n, &t->by_name, compare_names) : NULL;
    if (!found || *found != n) {
        free(n);
        return found ? (*found)->number : UINT32_MAX;
    }
    n->number = (uint32_t)t->n_names;
    t->names[t->n_names++] = n;
    return n->number;
}

static int compare_symbols(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

static const struct symbol *symbol_at(const struct text *t, uintptr_t address)
{
    return bsearch(&(struct symbol){.address = address}, t->symbols, t->n_symbols, sizeof(*t->symbols),
                   compare_symbols);
}

/* All addresses, each once, with their names. */
static int find_symbols(struct text *t)
{
    static const char *const own[NAMES_OWN] = {"[wsd]", "[cut off]", "[no unwind table]", "[stolen]"};
    char text[NAME_ROOM - 1]; /* a line has a ; before it */
    size_t n = 0, kept = 0;

    for (uint32_t i = 0; i < NAMES_OWN; i++)
        if (name_number(t, own[i]) != i)
            return -ENOMEM;
    for (size_t i = 0; i < t->n_samples; i++)
        n += sample_frames(t->samples[i].sample);
    t->symbols = calloc(n + 1, sizeof(*t->symbols));
    if (!t->symbols)
        return -ENOMEM;
    n = 0;
    for (size_t i = 0; i < t->n_samples; i++)
        for (size_t k = 0; k < sample_frames(t->samples[i].sample); k++)
            t->symbols[n++].address = t->samples[i].sample[SAMPLE_FRAMES + k];
    qsort(t->symbols, n, sizeof(*t->symbols), compare_symbols);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || t->symbols[i].address != t->symbols[kept - 1].address)
            t->symbols[kept++] = t->symbols[i];
    t->n_symbols = kept;
    for (size_t i = 0; i < kept; i++) {
        t->symbols[i].where = backtrace_name(t->symbols[i].address, text, sizeof(text));
        t->symbols[i].name = name_number(t, text);
        if (t->symbols[i].name == UINT32_MAX)
            return -ENOMEM;
    }
    return 0;
}

/* --- one stack ---------------------------------------------------------------------------------------------------- */

/* A stack while it is put together, the outermost frame first. What has no room is left out. */
struct frames {
    uint32_t n, names[STACK_MAX];
};

static void put_name(struct frames *f, uint32_t name)
{
    if (f->n < STACK_MAX)
        f->names[f->n++] = name;
}

/* Frames of the engine between two of a job's are one; those outside the job's outermost are left out. */
static void put_own(const struct text *t, const uintptr_t *sample, struct frames *f)
{
    size_t n = sample_frames(sample);
    bool engine = false, whole = false, any;

    for (size_t i = 0; i < n && !whole; i++)
        whole = symbol_at(t, sample[SAMPLE_FRAMES + i])->where == BACKTRACE_OWN;
    any = !whole || n == PROFILE_FRAMES;
    if (any)
        put_name(f, n == PROFILE_FRAMES ? NAME_CUT : NAME_BROKEN);
    for (size_t i = n; i-- > 0;) {
        const struct symbol *s = symbol_at(t, sample[SAMPLE_FRAMES + i]);

        if (s->where == BACKTRACE_OWN) {
            engine = any;
            continue;
        }
        if (!any && s->where != BACKTRACE_PLUGIN)
            continue; /* the C library's, which begin a thread */
        if (engine)
            put_name(f, NAME_ENGINE);
        engine = false;
        any = true;
        put_name(f, s->name);
    }
    if (engine || !any)
        put_name(f, NAME_ENGINE);
}

/* --- spawners ----------------------------------------------------------------------------------------------------- */

static int compare_taken(const void *a, const void *b)
{
    const struct taken *x = a, *y = b;

    if (x->worker != y->worker)
        return x->worker < y->worker ? -1 : 1;
    return x->sample[SAMPLE_TICKS] < y->sample[SAMPLE_TICKS] ? -1 : x->sample[SAMPLE_TICKS] > y->sample[SAMPLE_TICKS];
}

/* The first sample of this worker that is not before, or the end of its samples. */
static size_t find_taken(const struct text *t, uint32_t worker, uintptr_t ticks)
{
    size_t low = 0, high = t->n_samples;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct taken *at = &t->samples[middle];

        if (at->worker < worker || (at->worker == worker && at->sample[SAMPLE_TICKS] < ticks))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_of(const struct text *t, size_t at, uint32_t worker, uintptr_t subject)
{
    return at < t->n_samples && t->samples[at].worker == worker && t->samples[at].sample[SAMPLE_SUBJECT] == subject;
}

/* *deeper: one of the two has more than that. */
static void keep_shared(struct frames *f, const struct frames *other, bool *deeper)
{
    uint32_t n = 0;

    while (n < f->n && n < other->n && f->names[n] == other->names[n])
        n++;
    *deeper |= f->n > n || other->n > n;
    f->n = n;
}

static void put_stack(const struct text *t, const uintptr_t *sample, unsigned depth, struct frames *f);

/* The nearest sample of the victim that has the spawner's origin. n_samples: there is none. */
static size_t find_nearest(const struct text *t, const uintptr_t *sample, size_t first, size_t after)
{
    uint32_t victim = (uint32_t)sample[SAMPLE_VICTIM];

    if (first > 0 && is_of(t, first - 1, victim, sample[SAMPLE_SUBJECT]) &&
        t->samples[first - 1].sample[SAMPLE_ORIGIN] == sample[SAMPLE_VICTIM_ORIGIN])
        return first - 1;
    if (is_of(t, after, victim, sample[SAMPLE_SUBJECT]) &&
        t->samples[after].sample[SAMPLE_ORIGIN] == sample[SAMPLE_VICTIM_ORIGIN])
        return after;
    return t->n_samples;
}

/* What the victim's samples of that time share, and the mark. */
static void put_spawner(const struct text *t, const uintptr_t *sample, unsigned depth, struct frames *f)
{
    uint32_t victim = (uint32_t)sample[SAMPLE_VICTIM];
    size_t first = find_taken(t, victim, sample[SAMPLE_SINCE]), after = find_taken(t, victim, sample[SAMPLE_TICKS] + 1),
           nearest;
    /* For the spawner's own spawner one is enough: else their number would be a power of the depth. */
    size_t witnesses = depth > 0 ? 1 : WITNESS_MAX, step = MAX((after - first + witnesses - 1) / witnesses, (size_t)1);
    struct frames other;
    bool any = false, deeper = false;

    for (size_t i = first; i < after; i += step) {
        if (!is_of(t, i, victim, sample[SAMPLE_SUBJECT]))
            continue;
        other.n = 0;
        put_stack(t, t->samples[i].sample, depth + 1, any ? &other : f);
        if (any)
            keep_shared(f, &other, &deeper);
        any = true;
    }
    nearest = any ? t->n_samples : find_nearest(t, sample, first, after);
    if (nearest < t->n_samples)
        put_stack(t, t->samples[nearest].sample, depth + 1, f);
    /* What all of them were in may be what the spawner has called since, or the engine. */
    if (!deeper && f->n > 0)
        f->n--;
    put_name(f, NAME_STOLEN);
}

static void put_stack(const struct text *t, const uintptr_t *sample, unsigned depth, struct frames *f)
{
    if (sample[SAMPLE_VICTIM] != TRACE_NOBODY && depth < JOINS_MAX)
        put_spawner(t, sample, depth, f);
    put_own(t, sample, f);
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static int on_sample(const uintptr_t *sample, uint32_t worker, void *userdata)
{
    struct text *t = userdata;

    if (t->n_samples == t->samples_room) {
        size_t room = t->samples_room ? 2 * t->samples_room : 1024;
        struct taken *samples = realloc(t->samples, room * sizeof(*samples));

        if (!samples)
            return -ENOMEM;
        t->samples = samples;
        t->samples_room = room;
    }
    t->samples[t->n_samples++] = (struct taken){.sample = sample, .worker = worker};
    return 0;
}

static int make_stacks(struct text *t)
{
    t->stacks = calloc(t->n_samples + 1, sizeof(*t->stacks));
    if (!t->stacks)
        return -ENOMEM;
    for (size_t i = 0; i < t->n_samples; i++) {
        const uintptr_t *sample = t->samples[i].sample;
        struct frames f = {.n = 0};

        if (sample[SAMPLE_SUBJECT])
            put_stack(t, sample, 0, &f);
        struct stack *s = malloc(sizeof(*s) + f.n * sizeof(f.names[0]));
        if (!s)
            return -ENOMEM;
        *s = (struct stack){.count = sample_weight(sample), .subject = sample[SAMPLE_SUBJECT], .n = f.n};
        memcpy(s->names, f.names, f.n * sizeof(f.names[0]));
        t->stacks[t->n_stacks++] = s;
    }
    return 0;
}

static int compare_stacks(const void *a, const void *b)
{
    const struct stack *x = *(const struct stack *const *)a, *y = *(const struct stack *const *)b;

    if (x->subject != y->subject)
        return x->subject < y->subject ? -1 : 1;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return memcmp(x->names, y->names, x->n * sizeof(x->names[0]));
}

static void subject_text(uintptr_t subject, char *text, size_t size)
{
    snprintf(text, size, "[wsd]");
    if (subject)
        host_subject_name((const void *)subject, text, size, NULL);
    for (char *c = text; *c; c++)
        if (*c < 0x20 || *c >= 0x7f || *c == ';')
            *c = '?';
}

static int put_line(const struct text *t, const struct stack *s, uint64_t count,
                    int (*put)(const char *text, size_t size, void *userdata), void *userdata)
{
    static char line[(STACK_MAX + 1) * NAME_ROOM + COUNT_ROOM]; /* [control thread] */
    size_t used;

    subject_text(s->subject, line, NAME_ROOM);
    used = strlen(line);
    for (uint32_t i = 0; i < s->n; i++)
        used += (size_t)snprintf(line + used, NAME_ROOM, ";%s", t->names[s->names[i]]->text);
    used += (size_t)snprintf(line + used, COUNT_ROOM, " %llu\n", (unsigned long long)count);
    return put(line, used, userdata);
}

static int put_all(const struct text *t, int (*put)(const char *text, size_t size, void *userdata), void *userdata)
{
    int r = 0;

    qsort(t->stacks, t->n_stacks, sizeof(*t->stacks), compare_stacks);
    for (size_t i = 0, next; i < t->n_stacks && r == 0; i = next) {
        uint64_t count = 0;

        for (next = i; next < t->n_stacks && compare_stacks(&t->stacks[i], &t->stacks[next]) == 0; next++)
            count += t->stacks[next]->count;
        r = put_line(t, t->stacks[i], count, put, userdata);
    }
    return r;
}

static void leave(void *name)
{
}

static void text_deinit(struct text *t)
{
    tdestroy(t->by_name, leave);
    for (size_t i = 0; i < t->n_names; i++)
        free(t->names[i]);
    for (size_t i = 0; i < t->n_stacks; i++)
        free(t->stacks[i]);
    free(t->names);
    free(t->stacks);
    free(t->symbols);
    free(t->samples);
}

int profile_text(int (*put)(const char *text, size_t size, void *userdata), void *userdata, uint64_t *ret_lost)
{
    struct text t = {.n_names = 0};
    int r = profile_read(on_sample, &t, ret_lost);

    if (r == 0 && t.n_samples > 0) {
        qsort(t.samples, t.n_samples, sizeof(*t.samples), compare_taken);
        r = find_symbols(&t);
        if (r == 0)
            r = make_stacks(&t);
        if (r == 0)
            r = put_all(&t, put, userdata);
    }
    text_deinit(&t);
    return r;
}
