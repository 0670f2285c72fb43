/* SPDX-License-Identifier: Apache-2.0
 *
 * topology.c: reduces what hwloc knows of the machine to an order of CPUs and a table of distances.
 * Owns the table; hwloc's own memory is given back before topology_new() returns.
 * Keeps: only CPUs of the affinity mask; each once.
 * Does not pin threads, or follow changes of the mask. */
#include "pool/topology.h"

#include <errno.h>
#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Another place, as seen from one: `begin` and `size` say where those of the same distance stand in its row. */
struct near {
    uint16_t place, begin, size;
};

struct topology {
    uint32_t n;
    uint32_t cpus[TOPOLOGY_CPUS_MAX]; /* by place */
    uint8_t *distances;               /* n rows of n */
    struct near *rows;                /* n rows of n, nearest first */
};

struct topology *topology_free(struct topology *t)
{
    if (!t)
        return NULL;
    free(t->distances);
    free(t->rows);
    free(t);
    return NULL;
}

#ifdef HAVE_HWLOC

DEFINE_CLEANUP(struct topology, topology_free)

struct unit {
    hwloc_obj_t pu;
    unsigned rank; /* which hardware thread of its core, among those that may be used */
    unsigned at;   /* in hwloc's order, where neighbours stand together */
};

static void hwloc_destroyp(hwloc_topology_t *h)
{
    if (*h)
        hwloc_topology_destroy(*h);
}

static int load_topology(hwloc_topology_t *ret, const char *synthetic)
{
    _cleanup_(hwloc_destroyp) hwloc_topology_t h = NULL;

    if (hwloc_topology_init(&h) < 0)
        return -ENOMEM;
    if (synthetic && hwloc_topology_set_synthetic(h, synthetic) < 0)
        return -ENOTSUP;
    /* Caches, cores and nodes are all that is asked for. */
    if (hwloc_topology_set_io_types_filter(h, HWLOC_TYPE_FILTER_KEEP_NONE) < 0 || hwloc_topology_load(h) < 0)
        return -ENOTSUP;
    *ret = TAKE(h);
    return 0;
}

/* Whether the mask of this thread has the CPU. A machine with more CPUs than a cpu_set_t has bits: all of them. */
static bool is_usable(const cpu_set_t *set, unsigned cpu)
{
    return !set || (cpu < CPU_SETSIZE && CPU_ISSET(cpu, set));
}

static int by_rank(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;

    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static uint32_t find_units(hwloc_topology_t h, const cpu_set_t *set, struct unit units[static TOPOLOGY_CPUS_MAX])
{
    hwloc_obj_t last_core = NULL;
    unsigned rank = 0;
    uint32_t n = 0;

    for (hwloc_obj_t pu = NULL; n < TOPOLOGY_CPUS_MAX && (pu = hwloc_get_next_obj_by_type(h, HWLOC_OBJ_PU, pu));) {
        hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(h, HWLOC_OBJ_CORE, pu);

        if (!is_usable(set, pu->os_index))
            continue;
        rank = core && core == last_core ? rank + 1 : 0;
        last_core = core;
        units[n] = (struct unit){.pu = pu, .rank = rank, .at = n};
        n++;
    }
    qsort(units, n, sizeof(*units), by_rank);
    return n;
}

static bool share(hwloc_topology_t h, hwloc_obj_type_t type, hwloc_obj_t a, hwloc_obj_t b)
{
    hwloc_obj_t of = hwloc_get_ancestor_obj_by_type(h, type, a);

    return of && of == hwloc_get_ancestor_obj_by_type(h, type, b);
}

static enum topology_distance distance(hwloc_topology_t h, hwloc_obj_t a, hwloc_obj_t b)
{
    if (a == b)
        return TOPOLOGY_SAME_CPU;
    if (share(h, HWLOC_OBJ_CORE, a, b))
        return TOPOLOGY_SAME_CORE;
    if (share(h, HWLOC_OBJ_L2CACHE, a, b))
        return TOPOLOGY_SAME_L2;
    if (share(h, HWLOC_OBJ_L3CACHE, a, b))
        return TOPOLOGY_SAME_L3;
    /* memory hangs beside the tree of CPUs: a node is a set */
    return a->nodeset && b->nodeset && hwloc_bitmap_intersects(a->nodeset, b->nodeset) ? TOPOLOGY_SAME_NODE
                                                                                       : TOPOLOGY_OTHER_NODE;
}

static void fill_row(struct topology *t, uint32_t place)
{
    struct near *row = &t->rows[(size_t)place * t->n];
    uint16_t n = 0;

    for (int d = 0; d < TOPOLOGY_DISTANCES; d++) {
        uint16_t begin = n;

        for (uint32_t other = 0; other < t->n; other++)
            if (topology_distance(t, place, other) == (enum topology_distance)d)
                row[n++].place = (uint16_t)other;
        for (uint16_t i = begin; i < n; i++) {
            row[i].begin = begin;
            row[i].size = (uint16_t)(n - begin);
        }
    }
}

static int build(struct topology *t, hwloc_topology_t h, const cpu_set_t *set)
{
    _cleanup_(freep) struct unit *units = calloc(TOPOLOGY_CPUS_MAX, sizeof(*units));

    if (!units)
        return -ENOMEM;
    t->n = find_units(h, set, units);
    if (t->n == 0)
        return -ENOTSUP;
    t->distances = malloc((size_t)t->n * t->n);
    t->rows = calloc((size_t)t->n * t->n, sizeof(*t->rows));
    if (!t->distances || !t->rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->n; i++) {
        t->cpus[i] = units[i].pu->os_index;
        for (uint32_t j = 0; j < t->n; j++)
            t->distances[(size_t)i * t->n + j] = (uint8_t)distance(h, units[i].pu, units[j].pu);
    }
    for (uint32_t i = 0; i < t->n; i++)
        fill_row(t, i);
    return 0;
}

int topology_new(struct topology **ret_topology, const char *synthetic)
{
    _cleanup_(topology_freep) struct topology *t = calloc(1, sizeof(*t));
    _cleanup_(hwloc_destroyp) hwloc_topology_t h = NULL;
    cpu_set_t set;
    bool masked = !synthetic && sched_getaffinity(0, sizeof(set), &set) == 0;

    if (!t)
        return -ENOMEM;
    int r = load_topology(&h, synthetic);
    if (r == 0)
        r = build(t, h, masked ? &set : NULL);
    if (r < 0)
        return r;
    *ret_topology = TAKE(t);
    return 0;
}

#else

int topology_new(struct topology **ret_topology, const char *synthetic)
{
    return -ENOTSUP;
}

#endif

uint32_t topology_cpus(const struct topology *t)
{
    return t->n;
}

uint32_t topology_cpu(const struct topology *t, uint32_t place)
{
    return t->cpus[place];
}

enum topology_distance topology_distance(const struct topology *t, uint32_t place, uint32_t other)
{
    return (enum topology_distance)t->distances[(size_t)place * t->n + other];
}

/* Workers on one place, where there are more workers than CPUs. */
static uint32_t rounds(const struct topology *t, uint32_t n)
{
    return (n + t->n - 1) / t->n;
}

uint32_t topology_steps(const struct topology *t, uint32_t n)
{
    return t->n * rounds(t, n);
}

uint32_t topology_victim(const struct topology *t, uint32_t worker, uint32_t n, uint32_t k, uint32_t random)
{
    const struct near *row = &t->rows[(size_t)(worker % t->n) * t->n];
    uint32_t many = rounds(t, n);
    const struct near *at = &row[k / many];
    uint32_t slot = at->begin + (k / many - at->begin + random % at->size) % at->size;

    return row[slot].place + (k % many + random) % many * t->n;
}
