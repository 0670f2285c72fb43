/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h: the functions behind wsd/graph.h, for the table in ops.c; and a graph, for graph.c and graph-run.c only.
 *
 *           | build | run | cancel | dump
 *   build   |  no   | no  |  yes   |  no     add, precede, free [any thread]; in a run -EBUSY, free aborts
 *   run     |  no   | no  |  yes   |  yes    [worker]; a second one is refused
 *   cancel  |  yes  | yes |  yes   |  yes    [any]; not with free
 *   dump    |  no   | yes |  yes   |  yes    [any]
 */
#pragma once

#include <pthread.h>

#include "base/eventcount.h"
#include "pool/deque.h"
#include "pool/ready.h"
#include "wsd/graph.h"

/* The limits, which a test makes smaller. */
#ifndef GRAPH_NODES_MAX
#define GRAPH_NODES_MAX WSD_NODES_MAX
#define GRAPH_EDGES_MAX WSD_EDGES_MAX
#endif

/* The number of workers of which a waiting caller knows what they run for it. */
#define GRAPH_HINTS 16u
#define NODE_FEW    2u

struct node {
    _Alignas(CACHE_LINE) struct wsd_node public; /* first */
    struct node *link;                           /* the next one in a list [its taker, or graph.lock] */
    wsd_node_fn *fn;                             /* NULL: `arg` is a graph, which is run */
    void *arg;
    struct node **after; /* successors, in the order in which they were given */
    /* How many strong edges are still to come. 0: the node is to run, or runs. Negative: it was to run twice at once.
     * [atomic: each predecessor's decrement releases what it wrote; the last one's acquires. The thread that made the
     * last one runs the node or hands it on under graph.lock. Set anew, by release, when its function has ended] */
    _Atomic int32_t pending;
    int32_t strong; /* what `pending` begins with; 1 where it has no strong edge */
    uint32_t n_after;
    bool condition, single; /* single: one edge comes in, so no other thread counts down */
    /* cold */
    bool runs_graph;
    struct node *few[NODE_FEW]; /* `after`, while it is short */
    uint32_t room, index, n_strong, n_weak, mark;
    char *name;
};

struct node_chunk;

struct graph {
    struct wsd_graph public; /* first */
    /* [builder; const in a run] */
    struct node_chunk *chunks, *last_chunk;
    struct node **first; /* those without an edge coming in */
    uint32_t n_nodes, n_edges, n_first, n_conditions;
    bool checked;         /* nothing has changed since graph_check() */
    bool dirty;           /* some node's `pending` is not its initial value */
    _Atomic bool running; /* [atomic: acquire CAS by the thread that runs it, release at the end of the run] */
    /* Of the run. [const in it, but the group's flag and error] */
    struct worker *caller;
    void *context; /* the caller's */
    uint32_t turn; /* [caller] */
    struct wsd_group group;
    /* Nodes that are to run or run. Raised before they are handed on. [atomic: acq_rel RMWs, partners are each other;
     * at 0 the caller has seen all that nodes wrote; seq_cst against its sleep] */
    _Alignas(CACHE_LINE) _Atomic uint64_t active;
    struct eventcount event; /* the caller's sleep: nodes in the list, or none active */
    /* How many others may touch the graph besides the caller. The ticket counts from before its push until its taker
     * has gone. [atomic: raised under lock; release by the last touch, partner is the caller's acquire] */
    _Atomic uint32_t present;
    /* What other workers run for this graph: worker << 48 | origin, or 0. [atomic: release by that worker, acquire by
     * the caller, which looks that worker up; a hint] */
    _Atomic uint64_t hints[GRAPH_HINTS];
    _Alignas(CACHE_LINE) pthread_mutex_t lock;
    struct node *list;       /* nodes that are to run, the youngest first [lock] */
    bool ticket_out;         /* [lock] */
    _Atomic uint32_t n_list; /* [atomic: stored under lock, seq_cst against the caller's sleep; else a hint] */
    struct ready ticket;     /* the thread that takes it from the pool's lists runs nodes of `list` */
};

static inline struct graph *graph_of(struct wsd_graph *graph)
{
    return (struct graph *)(void *)graph;
}

static inline struct node *node_of(struct wsd_node *node)
{
    return (struct node *)(void *)node;
}

int graph_new(struct wsd_worker *self, struct wsd_graph **ret_graph);
void graph_free(struct wsd_graph *graph);
int graph_add(struct wsd_graph *graph, uint32_t kind, const char *name, wsd_node_fn *fn, void *arg,
              struct wsd_node **ret_node);
int graph_precede(struct wsd_node *before, struct wsd_node *after);
int graph_dump(const struct wsd_graph *graph, wsd_text_fn *put, void *arg);
/* Checks that the graph can be run, and finds its first nodes. 0, -ELOOP, -EINVAL, -ENOMEM. [the thread that runs
 * it] */
int graph_check(struct graph *g);
/* Sets each node's count to its initial value. [the thread that runs it] */
void graph_reset(struct graph *g);
