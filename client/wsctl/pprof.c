/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof.c: a profile as pprof reads it. Each name is one function with one location.
 * Owns the message while it is made.
 * Keeps: the innermost frame is the first of a sample, and the subject is the last.
 * Does not know addresses: folded stacks have names only. */
#include "pprof-module.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "client/wsctl/profile.pb-c.h"

#define NSEC 1000000000u

typedef Wsd__Pprof__Profile profile_msg; /* as protobuf-c names it */

enum { STRING_NONE, STRING_SAMPLES, STRING_COUNT, STRING_CPU, STRING_NANOSECONDS, STRINGS };

struct name {
    size_t number; /* from 1 */
    char text[];
};

struct maker {
    void *by_text;
    struct name **names; /* in the order of their numbers */
    size_t n, room;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* 0: no memory. */
static size_t number_of(struct maker *m, const char *text, size_t size)
{
    struct name *name = malloc(sizeof(*name) + size + 1), **found;

    if (!name)
        return 0;
    memcpy(name->text, text, size);
    name->text[size] = 0;
    if (m->n == m->room) {
        size_t room = m->room ? 2 * m->room : 256;
        struct name **names = realloc(m->names, room * sizeof(*names));

        if (!names) {
            free(name);
            return 0;
        }
        m->names = names;
        m->room = room;
    }
    found = tsearch(name, &m->by_text, compare);
    if (!found || *found != name) {
        free(name);
        return found ? (*found)->number : 0;
    }
    name->number = m->n + 1;
    m->names[m->n++] = name;
    return name->number;
}

static size_t frames_of(const struct folded_stack *s)
{
    size_t n = 1;

    for (const char *c = s->text; *c; c++)
        n += *c == FOLDED_END;
    return n;
}

/* One sample with its arrays behind it. NULL: no memory. */
static Wsd__Pprof__Sample *sample_new(struct maker *m, const struct folded_stack *s, uint64_t period)
{
    size_t n = frames_of(s), at = n;
    struct {
        Wsd__Pprof__Sample sample;
        int64_t values[2];
        uint64_t locations[];
    } *made = calloc(1, sizeof(*made) + n * sizeof(uint64_t));

    if (!made)
        return NULL;
    wsd__pprof__sample__init(&made->sample);
    for (const char *name = s->text, *end; at > 0; name = end + 1) {
        end = strchrnul(name, FOLDED_END);
        made->locations[--at] = number_of(m, name, (size_t)(end - name));
        if (made->locations[at] == 0) {
            free(made);
            return NULL;
        }
    }
    made->values[0] = (int64_t)s->count;
    made->values[1] = (int64_t)(s->count * period);
    made->sample.n_location_id = n;
    made->sample.location_id = made->locations;
    made->sample.n_value = 2;
    made->sample.value = made->values;
    return &made->sample;
}

/* What is said of each name: its function, its location, and the location's line. */
struct place {
    Wsd__Pprof__Function function;
    Wsd__Pprof__Location location;
    Wsd__Pprof__Line line, *lines;
};

static int fill_places(const struct maker *m, profile_msg *p, struct place *places)
{
    p->function = calloc(m->n + 1, sizeof(void *));
    p->location = calloc(m->n + 1, sizeof(void *));
    p->string_table = calloc(STRINGS + m->n, sizeof(char *));
    if (!p->function || !p->location || !p->string_table)
        return -ENOMEM;
    for (size_t i = 0; i < m->n; i++) {
        struct place *at = &places[i];

        wsd__pprof__function__init(&at->function);
        wsd__pprof__location__init(&at->location);
        wsd__pprof__line__init(&at->line);
        at->function.id = at->location.id = at->line.function_id = i + 1;
        at->function.name = (int64_t)(STRINGS + i);
        at->lines = &at->line;
        at->location.n_line = 1;
        at->location.line = &at->lines;
        p->function[i] = &at->function;
        p->location[i] = &at->location;
        p->string_table[STRINGS + i] = m->names[i]->text;
    }
    static char none[] = "", samples[] = "samples", count[] = "count", cpu[] = "cpu", nanoseconds[] = "nanoseconds";
    p->string_table[STRING_NONE] = none;
    p->string_table[STRING_SAMPLES] = samples;
    p->string_table[STRING_COUNT] = count;
    p->string_table[STRING_CPU] = cpu;
    p->string_table[STRING_NANOSECONDS] = nanoseconds;
    p->n_function = p->n_location = m->n;
    p->n_string_table = STRINGS + m->n;
    return 0;
}

static int compress_to(const void *data, size_t size, FILE *to)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    unsigned char piece[65536] = {0};
    int r;

    if (size > UINT32_MAX ||
        deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    do {
        z.next_out = piece;
        z.avail_out = sizeof(piece);
        r = deflate(&z, Z_FINISH);
        fwrite(piece, 1, sizeof(piece) - z.avail_out, to);
    } while (r == Z_OK || r == Z_BUF_ERROR);
    deflateEnd(&z);
    return r == Z_STREAM_END ? 0 : -EIO;
}

static int pack_to(const profile_msg *p, FILE *to)
{
    size_t size = wsd__pprof__profile__get_packed_size(p);
    _cleanup_(freep) uint8_t *data = malloc(size + 1);

    if (!data)
        return -ENOMEM;
    wsd__pprof__profile__pack(p, data);
    return compress_to(data, size, to);
}

static void leave(void *name)
{
}

__attribute__((visibility("default"))) int wsctl_pprof_write(const struct folded *f, uint64_t rate, uint64_t usec,
                                                             FILE *to)
{
    Wsd__Pprof__ValueType samples = WSD__PPROF__VALUE_TYPE__INIT, cpu = WSD__PPROF__VALUE_TYPE__INIT;
    Wsd__Pprof__ValueType *types[] = {&samples, &cpu};
    profile_msg p = WSD__PPROF__PROFILE__INIT;
    struct maker m = {.n = 0};
    struct place *places = NULL;
    int r = 0;

    samples.type = STRING_SAMPLES;
    samples.unit = STRING_COUNT;
    cpu.type = STRING_CPU;
    cpu.unit = STRING_NANOSECONDS;
    p.n_sample_type = 2;
    p.sample_type = types;
    p.period_type = &cpu;
    p.period = (int64_t)(NSEC / rate);
    p.duration_nanos = (int64_t)(usec * 1000u);
    p.sample = calloc(f->n + 1, sizeof(void *));
    while (p.sample && p.n_sample < f->n && (p.sample[p.n_sample] = sample_new(&m, f->stacks[p.n_sample], NSEC / rate)))
        p.n_sample++;
    if (p.sample && p.n_sample == f->n)
        places = calloc(m.n + 1, sizeof(*places));
    r = places ? fill_places(&m, &p, places) : -ENOMEM;
    if (r == 0)
        r = pack_to(&p, to);
    for (size_t i = 0; i < p.n_sample; i++)
        free(p.sample[i]);
    tdestroy(m.by_text, leave);
    for (size_t i = 0; i < m.n; i++)
        free(m.names[i]);
    free(m.names);
    free(p.sample);
    free(p.function);
    free(p.location);
    free(p.string_table);
    free(places);
    return r;
}
