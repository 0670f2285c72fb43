/* SPDX-License-Identifier: Apache-2.0
 *
 * graph-run.h: running the graphs of graph.h, which says which calls may be made at once.
 */
#pragma once

#include "wsd/graph.h"

int graph_run(struct wsd_worker *self, struct wsd_group *group, struct wsd_graph *graph, uint64_t times,
              wsd_until_fn *until, void *arg);
void graph_cancel(struct wsd_graph *graph);
