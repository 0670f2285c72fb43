/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c: task graphs of wsd/graph.h: how they are built, checked, and written in the language of dot.
 * Owns the nodes and edges of a graph, and copies of names; never what functions are given.
 * One thread at a time, but graph_dump() [any].
 * Keeps: a call that fails leaves the graph as it was; what graph_check() lets pass has a beginning, and ends unless
 * conditions have it go on.
 * Does not run anything: graph-run.c. */
#include "pool/graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pool/worker.h"

#define CHUNK_FIRST 8u
#define CHUNK_LAST  1024u

struct node_chunk {
    struct node_chunk *next;
    uint32_t n, room;
    struct node nodes[];
};

#define for_each_node(n, g)                                                                                            \
    for (struct node_chunk *c_ = (g)->chunks; c_; c_ = c_->next)                                                       \
        for (struct node *n = c_->nodes; n < c_->nodes + c_->n; n++)

static bool runs(struct graph *g)
{
    /* Relaxed: exact for threads that build in turn with the run, and in nodes. */
    return atomic_load_explicit(&g->running, memory_order_relaxed);
}

int graph_new(struct wsd_worker *self, struct wsd_graph **ret_graph)
{
    struct graph *g = aligned_alloc(CACHE_LINE, sizeof(*g));

    pool_check_fork();
    if (!g)
        return -ENOMEM;
    *g = (struct graph){.public.ops = self->ops};
    pthread_mutex_init(&g->lock, NULL);
    eventcount_init(&g->event);
    list_init(&g->ticket.link);
    *ret_graph = &g->public;
    return 0;
}

void graph_free(struct wsd_graph *graph)
{
    struct graph *g = graph_of(graph);

    if (!g)
        return;
    if (runs(g))
        pool_broken("a graph was freed while it runs");
    for_each_node (n, g) {
        if (n->after != n->few)
            free(n->after);
        free(n->name);
    }
    for (struct node_chunk *c = g->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(g->first);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* --- building --- */

/* Room for one more node at the end of the last chunk. */
static int make_room(struct graph *g)
{
    struct node_chunk *last = g->last_chunk, *c;
    uint32_t room = last ? MIN(2 * last->room, CHUNK_LAST) : CHUNK_FIRST;

    if (last && last->n < last->room)
        return 0;
    c = aligned_alloc(CACHE_LINE, sizeof(*c) + room * sizeof(struct node));
    if (!c)
        return -ENOMEM;
    *c = (struct node_chunk){.room = room};
    if (last)
        last->next = c;
    else
        g->chunks = c;
    g->last_chunk = c;
    return 0;
}

int graph_add(struct wsd_graph *graph, uint32_t kind, const char *name, wsd_node_fn *fn, void *arg,
              struct wsd_node **ret_node)
{
    struct graph *g = graph_of(graph);
    bool runs_graph = kind == WSD_NODE_GRAPH;
    char *copy = NULL;

    if (kind > WSD_NODE_GRAPH || (runs_graph ? !arg || arg == graph : !fn))
        return -EINVAL;
    if (name && strlen(name) > WSD_NODE_NAME_MAX)
        return -ENAMETOOLONG;
    if (runs(g))
        return -EBUSY;
    if (g->n_nodes == GRAPH_NODES_MAX)
        return -E2BIG;
    if (make_room(g) < 0 || (name && !(copy = strdup(name))))
        return -ENOMEM;
    struct node *n = &g->last_chunk->nodes[g->last_chunk->n++];
    *n = (struct node){.public.graph = graph,
                       .fn = runs_graph ? NULL : fn,
                       .arg = arg,
                       .after = n->few,
                       .room = NODE_FEW,
                       .condition = kind == WSD_NODE_CONDITION,
                       .runs_graph = runs_graph,
                       .index = g->n_nodes++,
                       .name = copy};
    g->n_conditions += n->condition;
    g->checked = false;
    if (ret_node)
        *ret_node = &n->public;
    return 0;
}

static int make_room_after(struct node *n)
{
    struct node **after;

    if (n->n_after < n->room)
        return 0;
    after = realloc(n->after == n->few ? NULL : n->after, 2 * n->room * sizeof(struct node *));
    if (!after)
        return -ENOMEM;
    if (n->after == n->few)
        memcpy(after, n->few, sizeof(n->few));
    n->after = after;
    n->room *= 2;
    return 0;
}

int graph_precede(struct wsd_node *before, struct wsd_node *after)
{
    struct node *b = node_of(before), *a = node_of(after);
    struct graph *g = graph_of(before->graph);

    if (before->graph != after->graph)
        return -EINVAL;
    if (runs(g))
        return -EBUSY;
    if (g->n_edges == GRAPH_EDGES_MAX)
        return -E2BIG;
    if (make_room_after(b) < 0)
        return -ENOMEM;
    b->after[b->n_after++] = a;
    if (b->condition)
        a->n_weak++;
    else
        a->n_strong++;
    g->n_edges++;
    g->checked = false;
    return 0;
}

/* --- before a run --- */

/* Whether each node can be reached by taking away, again and again, those that no strong edge leads to (Kahn). */
static bool has_strong_loop(struct graph *g)
{
    struct node *list = NULL;
    uint32_t n_seen = 0;

    for_each_node (n, g) {
        n->mark = n->n_strong;
        if (n->mark == 0) {
            n->link = list;
            list = n;
        }
    }
    while (list) {
        struct node *n = list;
        list = n->link;
        n_seen++;
        for (uint32_t i = 0; i < n->n_after && !n->condition; i++)
            if (--n->after[i]->mark == 0) {
                n->after[i]->link = list;
                list = n->after[i];
            }
    }
    return n_seen < g->n_nodes;
}

int graph_check(struct graph *g)
{
    uint32_t n_first = 0;

    if (g->checked)
        return 0;
    if (has_strong_loop(g))
        return -ELOOP;
    for_each_node (n, g)
        n_first += n->n_strong + n->n_weak == 0;
    if (n_first == 0 && g->n_nodes > 0)
        return -EINVAL;
    struct node **first = realloc(g->first, MAX(n_first, 1u) * sizeof(struct node *));
    if (!first)
        return -ENOMEM;
    g->first = first;
    g->n_first = 0;
    for_each_node (n, g) {
        n->strong = (int32_t)MAX(n->n_strong, 1u);
        n->single = n->n_strong + n->n_weak == 1;
        if (n->n_strong + n->n_weak == 0)
            first[g->n_first++] = n;
    }
    g->checked = g->dirty = true;
    return 0;
}

void graph_reset(struct graph *g)
{
    /* Relaxed: no other thread uses the graph. */
    for_each_node (n, g)
        atomic_store_explicit(&n->pending, n->strong, memory_order_relaxed);
}

/* --- looking --- */

/* The name as dot has it between quotation marks: neither its escapes nor its entities mean anything. */
static size_t escape(char *to, const char *name)
{
    char *t = to;

    for (; *name; name++)
        if (*name == '"' || *name == '\\')
            t += sprintf(t, "\\%c", *name);
        else if (*name == '&')
            t += sprintf(t, "&amp;");
        else if (*name == '\n')
            t += sprintf(t, "\\n");
        else
            *t++ = (unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name;
    *t = '\0';
    return (size_t)(t - to);
}

static int dump_node(const struct node *n, wsd_text_fn *put, void *arg)
{
    char name[5 * WSD_NODE_NAME_MAX + 1], line[sizeof(name) + 64];
    int size;

    if (!n->name)
        snprintf(name, sizeof(name), "%u", n->index);
    else
        escape(name, n->name);
    size = snprintf(line, sizeof(line), "  n%u [label=\"%s\"%s];\n", n->index, name,
                    n->condition    ? " shape=diamond"
                    : n->runs_graph ? " shape=box3d"
                                    : "");
    return put(line, (size_t)size, arg);
}

static int dump_edges(const struct node *n, wsd_text_fn *put, void *arg)
{
    char line[96];
    int r = 0;

    for (uint32_t i = 0; i < n->n_after && r == 0; i++) {
        int size = snprintf(line, sizeof(line), "  n%u -> n%u", n->index, n->after[i]->index);
        if (n->condition)
            size += snprintf(line + size, sizeof(line) - (size_t)size, " [style=dashed label=\"%u\"]", i);
        size += snprintf(line + size, sizeof(line) - (size_t)size, ";\n");
        r = put(line, (size_t)size, arg);
    }
    return r;
}

int graph_dump(const struct wsd_graph *graph, wsd_text_fn *put, void *arg)
{
    static const char begin[] = "digraph wsd {\n", end[] = "}\n";
    const struct graph *g = (const struct graph *)(const void *)graph;
    int r = put(begin, sizeof(begin) - 1, arg);

    for_each_node (n, g)
        if (r == 0)
            r = dump_node(n, put, arg);
    for_each_node (n, g)
        if (r == 0)
            r = dump_edges(n, put, arg);
    return r ? r : put(end, sizeof(end) - 1, arg);
}
