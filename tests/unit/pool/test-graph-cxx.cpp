/* SPDX-License-Identifier: Apache-2.0
 *
 * test-graph-cxx.cpp: wsd/graph.h compiles and works in C++, with lambdas as functions; called from test-graph.c. */
#include <wsd/graph.h>

#include <string>

extern "C" int cxx_graph(wsd_worker *self);

int cxx_graph(wsd_worker *self)
{
    wsd_graph *graph, *inner;
    wsd_node *first, *again, *last, *other;
    long turns = 0;
    std::string text;

    if (wsd_graph_new(self, &graph) || wsd_graph_new(self, &inner))
        return 1;
    auto one = [](wsd_worker *, wsd_group *, void *arg) { return ++*static_cast<long *>(arg), 0; };
    auto more = [](wsd_worker *, wsd_group *group, void *arg) {
        return wsd_group_cancelled(group) ? -1 : *static_cast<long *>(arg) < 100 ? 0 : 1;
    };
    int error = wsd_graph_add(graph, "first", one, &turns, &first);
    error += wsd_graph_add_condition(graph, "again?", more, &turns, &again);
    error += wsd_graph_add_graph(graph, "last", inner, &last);
    error += wsd_graph_add(inner, nullptr, one, &turns, &other);
    error += wsd_graph_add(graph, "begin", one, &turns, &other);
    error += wsd_graph_precede(other, first);
    error += wsd_graph_precede(first, again);
    error += wsd_graph_precede(again, first);
    error += wsd_graph_precede(again, last);
    error += wsd_graph_run(self, nullptr, graph);
    error += wsd_graph_run_n(self, nullptr, inner, 5);
    error += wsd_graph_run_until(
        self, nullptr, inner, [](wsd_worker *, uint64_t runs, void *) { return runs == 3; }, nullptr);
    wsd_graph_cancel(graph);
    error += wsd_graph_dump(
        graph,
        [](const char *t, size_t size, void *arg) { return static_cast<std::string *>(arg)->append(t, size), 0; },
        &text);
    wsd_graph_free(graph);
    wsd_graph_free(inner);
    return error || turns != 109 || text.size() < 100;
}
