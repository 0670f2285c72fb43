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
 * A graph is built once, by one thread at a time. Any task of the pool may run it, as often as wanted, one run at a
 * time. While it runs nothing in it may change. Each node is a function. After wsd_graph_precede(a, b) there is an
 * edge, and b runs after a. There are two kinds of edges:
 *
 * Strong edges come from ordinary nodes. A node runs when as many of its strong predecessors have ended as it has
 * strong edges coming in; the count then begins anew.
 *
 * Weak edges come from conditions. A condition's function returns the index of the one successor that runs next: 0 is
 * the one that was given to wsd_graph_precede() first. That successor runs whatever its strong predecessors do. Weak
 * edges may form loops. A loop of strong edges could never begin, and is refused.
 *
 * A run begins with all nodes that have no edge coming in, of either kind. It ends when nothing runs and nothing is to
 * run. A node that a condition does not choose, and what comes after it, does not run. What a node writes is visible to
 * those that run after it, and to the caller when the run returns.
 *
 * If a node is to run again while it still runs, the run ends with -EALREADY. This happens if two conditions choose the
 * node at once, or if a loop comes round before a part that it does not wait for has ended.
 *
 * Errors. A node's function returns 0, or its error: any other int, such as an errno. The error of a condition is
 * negative. The first error in time wins: the run returns it. Nodes that have not begun by then do not begin; those
 * that run may finish. The graph's own errors are negative.
 *
 * Cancelling. The `group` of a run is NULL or a group (wsd/forms.h). The run stops when that group, or one above it, is
 * cancelled. One run can also be stopped by wsd_graph_cancel(). Either way the run returns -ECANCELED if no node had an
 * error, even if nothing was left to stop. Functions get the run's own group. They ask wsd_group_cancelled() in long
 * pieces, and give the group to forms and runs within. The group is valid until they return, and not for
 * wsd_group_spawn().
 *
 * Nodes may spawn and sync, use forms and futures, and run other graphs; each joins what it spawns. The run waits as a
 * future does: the caller runs nodes of this graph, or helps with what they have spawned, and with nothing else. If
 * there is nothing of that, it sleeps, and another worker takes the CPU. While any graph of a pool runs, joins of
 * wsd/task.h keep to their own tasks, as with futures. A chain of any length needs no stack.
 *
 * Works in C11 and C++17; a lambda without captures is a function. No exception may leave a function of yours. Origin:
 * the conditions, modules and repeated runs of Taskflow (Huang, Lin, Lin, Lin: Taskflow, a lightweight parallel and
 * heterogeneous task graph computing system, 2022). Strong edges alone are TBB's continue_node and OpenMP's depend.
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

/* Makes an empty graph, which the caller owns, in the job's memory. `self` is the worker that runs the caller. Returns
 * 0 or -ENOMEM. Since 1. */
static inline int wsd_graph_new(struct wsd_worker *self, struct wsd_graph **ret_graph)
{
    return self->ops->graph_new(self, ret_graph);
}

/* Frees a graph with its nodes, but not what their arguments point to. NULL is fine; a graph that runs is not. From any
 * thread. Since 1. */
static inline void wsd_graph_free(struct wsd_graph *graph)
{
    if (graph)
        graph->ops->graph_free(graph);
}

/* Adds a node: fn(self, run's own group, arg) runs once a turn, on any worker. `name` (NULL: none) is copied, and only
 * for wsd_graph_dump(). The node belongs to the graph. Give NULL for ret_node if nothing is to run after or before it.
 * Returns 0. On errors *ret_node is untouched: -ENOMEM, -E2BIG (more than WSD_NODES_MAX), -ENAMETOOLONG (more than
 * WSD_NODE_NAME_MAX bytes), -EINVAL (no function), -EBUSY (the graph runs). Some 128 bytes a node. From any thread, one
 * at a time. Since 1. */
static inline int wsd_graph_add(struct wsd_graph *graph, const char *name, wsd_node_fn *fn, void *arg,
                                struct wsd_node **ret_node)
{
    return graph->ops->graph_add(graph, WSD_NODE_WORK, name, fn, arg, ret_node);
}

/* Adds a condition: fn returns the index of the successor that runs next. If no successor has that index, none runs,
 * and this path ends here. A negative index is an error. Else as wsd_graph_add(). Since 1. */
static inline int wsd_graph_add_condition(struct wsd_graph *graph, const char *name, wsd_node_fn *fn, void *arg,
                                          struct wsd_node **ret_node)
{
    return graph->ops->graph_add(graph, WSD_NODE_CONDITION, name, fn, arg, ret_node);
}

/* Adds a node that runs another graph once, as wsd_graph_run() in a function would. The error of that run is the
 * node's, and the run is cancelled with this graph. `inner` stays its owner's, and outlives the runs. If it runs
 * already, elsewhere or further out, the node's error is -EBUSY. Else as wsd_graph_add(); -EINVAL if inner is NULL or
 * the graph itself. Since 1. */
static inline int wsd_graph_add_graph(struct wsd_graph *graph, const char *name, struct wsd_graph *inner,
                                      struct wsd_node **ret_node)
{
    return graph->ops->graph_add(graph, WSD_NODE_GRAPH, name, NULL, inner, ret_node);
}

/* Has `after` run after `before`, or, if `before` is a condition, when it says so. Several edges between two nodes
 * count as several. Returns 0, -EINVAL (nodes of two graphs), -ENOMEM, -E2BIG (more than WSD_EDGES_MAX) or -EBUSY (the
 * graph runs). From any thread, one at a time. Since 1. */
static inline int wsd_graph_precede(struct wsd_node *before, struct wsd_node *after)
{
    return before->graph->ops->graph_precede(before, after);
}

/* --- running --- */

/* Runs the graph once and returns when it has ended; an empty one at once. `self` is the caller's worker. Returns 0;
 * else the first error of a node; else -ECANCELED. Returns an error before anything runs if the graph runs already
 * (-EBUSY) or strong edges form a loop (-ELOOP). So it does if every node has an edge coming in, so that none is the
 * first (-EINVAL). The first run after a change looks at the whole graph, in time proportional to its nodes and edges,
 * and needs memory (-ENOMEM). Since 1. */
static inline int wsd_graph_run(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph)
{
    return self->ops->graph_run(self, group, graph, 1, NULL, NULL);
}

/* Runs the graph `times` times, each after the one before has ended. Stops at the first that returns not 0. Since 1. */
static inline int wsd_graph_run_n(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph,
                                  uint64_t times)
{
    return self->ops->graph_run(self, group, graph, times, NULL, NULL);
}

/* Runs the graph until until(self, runs, arg) returns true. Asks before each run, also the first, on the caller's
 * worker; `runs` is how many have ended. Stops at the first run that returns not 0. Since 1. */
static inline int wsd_graph_run_until(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph,
                                      wsd_until_fn *until, void *arg)
{
    return self->ops->graph_run(self, group, graph, 0, until, arg);
}

/* Cancels the run in progress, with all its repetitions. Without one it does nothing. Does not wait. From any thread,
 * and from nodes; not at the same time as wsd_graph_free(). Since 1. */
static inline void wsd_graph_cancel(struct wsd_graph *graph)
{
    graph->ops->graph_cancel(graph);
}

/* --- looking --- */

/* Writes the graph in the language of graphviz's dot(1), in the order of building. Each call of put(text, size, arg)
 * takes a whole line. If it returns not 0, the dump ends and returns that value. Conditions are diamonds, and their
 * edges dashed with their index; graphs are boxes. Names are escaped, control characters become `?`. From any thread
 * while nothing is added to the graph, also while it runs. Since 1. */
static inline int wsd_graph_dump(const struct wsd_graph *graph, wsd_text_fn *put, void *arg)
{
    return graph->ops->graph_dump(graph, put, arg);
}

#ifdef __cplusplus
}
#endif

#endif
