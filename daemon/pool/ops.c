/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c: the table of what tasks can do: the engine's part, and the forms that stand on it.
 * Owns nothing. [const]
 * Does not do any of it. */
#include "pool/ops.h"

#include "pool/each.h"
#include "pool/future.h"
#include "pool/graph-run.h"
#include "pool/graph.h"
#include "pool/group.h"
#include "pool/join.h"
#include "pool/pipeline.h"
#include "pool/reduce.h"
#include "pool/scan.h"
#include "pool/sort.h"
#include "pool/worker.h"

const struct wsd_task_ops worker_ops = {
    .size = sizeof(struct wsd_task_ops),
    .spawn = task_spawn,
    .sync = task_sync,
    .lower = task_lower,
    .for_range = task_for,
    .spawn_word = task_spawn_word,
    .sync_word = task_sync_word,
    .blocking_begin = task_blocking_begin,
    .blocking_end = task_blocking_end,
    .future_begin = future_begin,
    .future_start = future_start,
    .future_set = future_set,
    .future_wait = future_wait,
    .future_done = future_done,
    .future_help = future_help,
    .group_begin = group_begin,
    .group_spawn = group_spawn,
    .group_end = group_end,
    .group_cancel = group_cancel,
    .group_cancelled = group_cancelled,
    .for_each = form_for_each,
    .reduce = form_reduce,
    .scan = form_scan,
    .sort = form_sort,
    .find_first = form_find_first,
    .pipeline = form_pipeline,
    .graph_new = graph_new,
    .graph_free = graph_free,
    .graph_add = graph_add,
    .graph_precede = graph_precede,
    .graph_run = graph_run,
    .graph_cancel = graph_cancel,
    .graph_dump = graph_dump,
};
