/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd/graph.h: task graphs: nodes that run after others, conditions that choose, graphs that run again and again.
 *
 *     static int compile(struct wsd_worker *self, struct wsd_group *group, void *arg) { ...; return 0; }
 *
 *     struct wsd_graph *graph;
 *     struct wsd_node *a, *b, *link;
 *     int error = wsd_graph_new(self, &graph);
 *     if (!error)
 *         error = wsd_graph_add(graph, "a", compile, "a.c", &a);
 *     ...
 *     if (!error)
 *         error = wsd_graph_precede(a, link);
 *     if (!error)
 *         error = wsd_graph_run(self, NULL, graph);
 *     wsd_graph_free(graph);
 *
 * A graph is built once, by one thread at a time, and run as often as wanted, by any task of the pool, one run at a
 * time. While it runs nothing in it may change. Each node is a function. wsd_graph_precede(a, b) has b run after a:
 *
 * Strong edges come from ordinary nodes. A node runs when as many of its strong predecessors have ended as it has
 * strong edges coming in; the count then begins anew.
 *
 * Weak edges come from conditions, whose function returns the index of the one successor that runs next: 0 is the one
 * that was given to wsd_graph_precede() first. That one runs whatever its strong predecessors do. Weak edges may form
 * loops. A loop of strong edges could never begin, and is refused.
 *
 * A run begins with all nodes that have no edge coming in, of either kind, and ends when nothing runs and nothing is to
 * run. A node that a condition does not choose, and what comes after it, does not run. What a node writes is visible to
 * those that run after it, and to the caller when the run returns.
 *
 * A node that is to run again while it still runs (two conditions choose it at once; a loop comes round before a part
 * that the loop does not wait for has ended) ends the run with -EALREADY.
 *
 * Errors. A node's function returns 0, or its error: any other int, such as an errno; a condition's a negative one. The
 * first error in time wins: the run returns it. Nodes that have not begun by then do not; those that run are let
 * finish. The graph's own errors are negative.
 *
 * Cancelling. The `group` of a run is NULL, or a group (wsd/forms.h) that stops the run when it is cancelled, or one
 * above it is; wsd_graph_cancel() stops one run. Either way it returns -ECANCELED where no node had an error, also
 * where nothing was left to stop. Functions get the run's own group: they ask wsd_group_cancelled() in long pieces, and
 * give the group to forms and runs within. It is good until they return, and not for wsd_group_spawn().
 *
 * Nodes may spawn and sync, use forms and futures, and run other graphs; each joins what it spawns. The run waits as a
 * future does: the caller runs nodes of this graph, or helps with what they have spawned, and with nothing else; where
 * there is none it sleeps, and another worker takes the CPU. While any graph of a pool runs, joins of wsd/task.h keep
 * to their own, as with futures. A chain of any length needs no stack.
 *
 * Works in C11 and C++17; a lambda without captures is a function. No exception may leave a function of yours.
 * Origin: Taskflow (Huang, Lin, Lin, Lin: Taskflow, a lightweight parallel and heterogeneous task graph computing
 * system, 2022), its conditions, modules and repeated runs; strong edges alone are TBB's continue_node and OpenMP's
 * depend.
 */
#ifndef WSD_GRAPH_H
#define WSD_GRAPH_H

#include "forms.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most nodes and edges of a graph; bytes of a node's name. Since 1. */
#define WSD_NODES_MAX     (1u << 24)
#define WSD_EDGES_MAX     (1u << 26)
#define WSD_NODE_NAME_MAX 255

/* A graph, a node of one. The fields are not for use by hand, and more follow that are not shown. Since 1. */
struct wsd_graph {
    const struct wsd_task_ops *ops;
};
struct wsd_node {
    struct wsd_graph *graph;
};

enum wsd_node_kind {
    WSD_NODE_WORK = 0,
    WSD_NODE_CONDITION = 1,
    WSD_NODE_GRAPH = 2,
};

/* --- building --- */

/* Makes an empty graph, which the caller owns, in the job's memory. `self` is the worker that runs the caller. 0 or
 * -ENOMEM. Since 1. */
static inline int wsd_graph_new(struct wsd_worker *self, struct wsd_graph **ret_graph)
{
    return self->ops->graph_new(self, ret_graph);
}

/* Frees it with its nodes; not what their arguments point to. NULL is fine; a graph that runs is not. From any thread.
 * Since 1. */
static inline void wsd_graph_free(struct wsd_graph *graph)
{
    if (graph)
        graph->ops->graph_free(graph);
}

/* Adds a node: fn(self, run's own group, arg) runs once a turn, on any worker. `name` (NULL: none) is copied, and only
 * for wsd_graph_dump(). The node belongs to the graph. ret_node is NULL where nothing is to run after or before it,
 * else *ret_node is untouched on errors: -ENOMEM, -E2BIG (more than WSD_NODES_MAX), -ENAMETOOLONG (more than
 * WSD_NODE_NAME_MAX bytes), -EINVAL (no function), -EBUSY (the graph runs). Some 128 bytes a node. From any thread, one
 * at a time. Since 1. */
static inline int wsd_graph_add(struct wsd_graph *graph, const char *name, wsd_node_fn *fn, void *arg,
                                struct wsd_node **ret_node)
{
    return graph->ops->graph_add(graph, WSD_NODE_WORK, name, fn, arg, ret_node);
}

/* Adds a condition: fn returns the index of the successor that runs next; an index that no successor has: none does,
 * and this way ends here; a negative one is an error. Else as wsd_graph_add(). Since 1. */
static inline int wsd_graph_add_condition(struct wsd_graph *graph, const char *name, wsd_node_fn *fn, void *arg,
                                          struct wsd_node **ret_node)
{
    return graph->ops->graph_add(graph, WSD_NODE_CONDITION, name, fn, arg, ret_node);
}

/* Adds a node that runs another graph, once, as wsd_graph_run() in a function would: its error is the node's, and it is
 * cancelled with this one. `inner` stays its owner's, and outlives the runs. Where it runs already, elsewhere or
 * further out, the node's error is -EBUSY. Else as wsd_graph_add(); -EINVAL where inner is NULL or the graph itself.
 * Since 1. */
static inline int wsd_graph_add_graph(struct wsd_graph *graph, const char *name, struct wsd_graph *inner,
                                      struct wsd_node **ret_node)
{
    return graph->ops->graph_add(graph, WSD_NODE_GRAPH, name, NULL, inner, ret_node);
}

/* Has `after` run after `before`; where `before` is a condition: when it says so. Several edges between two nodes count
 * as several. 0, -EINVAL (nodes of two graphs), -ENOMEM, -E2BIG (more than WSD_EDGES_MAX), -EBUSY (the graph runs).
 * From any thread, one at a time. Since 1. */
static inline int wsd_graph_precede(struct wsd_node *before, struct wsd_node *after)
{
    return before->graph->ops->graph_precede(before, after);
}

/* --- running --- */

/* Runs the graph once and returns when it has ended; an empty one at once. `self` is the caller's worker. 0; else the
 * first error of a node; else -ECANCELED. Or, before anything runs: -EBUSY (it runs already), -ELOOP (strong edges form
 * a loop), -EINVAL (every node has an edge coming in, so none is the first), -ENOMEM (the first run after a change
 * needs some). Looks at the whole graph in the first run after a change: a time of nodes and edges. Since 1. */
static inline int wsd_graph_run(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph)
{
    return self->ops->graph_run(self, group, graph, 1, NULL, NULL);
}

/* Runs it `times` times, each after the one before has ended; stops at the first that returns not 0. Since 1. */
static inline int wsd_graph_run_n(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph,
                                  uint64_t times)
{
    return self->ops->graph_run(self, group, graph, times, NULL, NULL);
}

/* Runs it until until(self, runs, arg) says true; asks before each run, also the first, on the caller's worker, `runs`
 * being how many have ended. Stops at the first run that returns not 0. Since 1. */
static inline int wsd_graph_run_until(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph,
                                      wsd_until_fn *until, void *arg)
{
    return self->ops->graph_run(self, group, graph, 0, until, arg);
}

/* Cancels the run that goes on, with all its repetitions; without one it does nothing. Does not wait. From any thread,
 * and from nodes; not at the same time as wsd_graph_free(). Since 1. */
static inline void wsd_graph_cancel(struct wsd_graph *graph)
{
    graph->ops->graph_cancel(graph);
}

/* --- looking --- */

/* Writes the graph in the language of graphviz's dot(1), in the order of building: put(text, size, arg) takes a whole
 * line, or returns not 0, which ends the dump and is returned. Conditions are diamonds, and their edges dashed with
 * their index; graphs are boxes. Names are escaped, control characters become `?`. From any thread while nothing is
 * added to the graph, also while it runs. Since 1. */
static inline int wsd_graph_dump(const struct wsd_graph *graph, wsd_text_fn *put, void *arg)
{
    return graph->ops->graph_dump(graph, put, arg);
}

#ifdef __cplusplus
}
#endif

#endif
