/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h: what the tests of wsd/graph.h share.
 */
#pragma once

#include "forms.h"
#include "wsd/future.h"
#include "wsd/graph.h"

static inline struct wsd_graph *new_graph(struct wsd_worker *self)
{
    struct wsd_graph *g = NULL;

    ck_assert_int_eq(wsd_graph_new(self, &g), 0);
    return g;
}

static inline struct wsd_node *add(struct wsd_graph *g, const char *name, wsd_node_fn *fn, void *arg)
{
    struct wsd_node *n = NULL;

    ck_assert_int_eq(wsd_graph_add(g, name, fn, arg, &n), 0);
    return n;
}

static inline struct wsd_node *add_condition(struct wsd_graph *g, const char *name, wsd_node_fn *fn, void *arg)
{
    struct wsd_node *n = NULL;

    ck_assert_int_eq(wsd_graph_add_condition(g, name, fn, arg, &n), 0);
    return n;
}

static inline void edge(struct wsd_node *a, struct wsd_node *b)
{
    ck_assert_int_eq(wsd_graph_precede(a, b), 0);
}

static _Atomic uint64_t ran;

static inline int count_one(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
    return 0;
}

/* Each counts for itself, in a plain variable: the order of the graph is what makes it right. */
static inline int add_one(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    *(uint64_t *)arg += 1;
    return 0;
}

static inline int fails(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    atomic_fetch_add(&ran, 1);
    return *(int *)arg;
}

/* A tree of 64 nodes that each count their runs. */
struct many {
    struct wsd_graph *graph;
    uint64_t counts[64], asked;
};

static inline void many_begin(struct many *m, struct wsd_worker *self)
{
    struct wsd_node *nodes[64];

    *m = (struct many){.graph = new_graph(self)};
    for (size_t i = 0; i < 64; i++) {
        nodes[i] = add(m->graph, NULL, add_one, &m->counts[i]);
        if (i > 0)
            edge(nodes[(i - 1) / 3], nodes[i]);
    }
}

static inline bool all_are(const struct many *m, uint64_t n)
{
    for (size_t i = 0; i < 64; i++)
        if (m->counts[i] != n)
            return false;
    return true;
}
