/* SPDX-License-Identifier: Apache-2.0
 *
 * uts.c: the plugin `uts`: the yardstick for trees of unpredictable shape. Each node is a task, with no cut-off.
 * Prints the number of nodes, the largest depth and the number of leaves, in this order.
 * Keeps: a task shares nothing with others but its parent's node, which lives until the sync. */
#include <string.h>

#include "base/cleanup.h"
#include "plugins/tree.h"
#include "wsd/plugin.h"
#include "wsd/task.h"

struct tally {
    uint64_t nodes, leaves;
    uint32_t depth;
};

struct search {
    struct wsd_job *job;
    const struct tree *tree;
};

static void tally_add(struct tally *tally, struct tally more)
{
    tally->nodes += more.nodes;
    tally->leaves += more.leaves;
    tally->depth = MAX(tally->depth, more.depth);
}

/* A child hashes its own way down, so that this work is spread too. index UINT32_MAX: the root. */
WSD_TASK_3(struct tally, visit, const struct search *, search, const struct node *, parent, uint32_t, index)
{
    struct node node;

    if (index == UINT32_MAX)
        node = *parent;
    else
        node_child(&node, parent, index);

    struct tally tally = {.nodes = 1, .depth = node.height};
    unsigned n = node_children(&node, search->tree);

    if (n == 0)
        tally.leaves = 1;
    if (wsd_job_cancelled(search->job))
        return tally;
    for (unsigned i = 0; i < n; i++)
        WSD_SPAWN(visit, search, &node, i);
    for (unsigned i = 0; i < n; i++)
        tally_add(&tally, WSD_SYNC(visit));
    return tally;
}

static int run(struct wsd_job *job, struct wsd_worker *self)
{
    const struct tree *tree = trees;
    struct node root;

    while (tree->name && job->argc == 2 && strcmp(tree->name, job->argv[1]))
        tree++;
    if (job->argc > 2 || !tree->name)
        return wsd_job_fail(job, 2, "usage: uts [T1|T2|T3|T4|T5|T1L|T2L|T3L]");
    node_root(&root, tree);

    struct search search = {.job = job, .tree = tree};
    struct tally tally = WSD_CALL(visit, &search, &root, UINT32_MAX);

    if (wsd_job_cancelled(job))
        return 1;
    return wsd_job_print(job, "%llu %u %llu\n", (unsigned long long)tally.nodes, tally.depth,
                         (unsigned long long)tally.leaves)
               ? 1
               : 0;
}

static const struct wsd_function functions[] = {
    {.name = "uts",
     .help = "[T1|T2|T3|T4|T5|T1L|T2L|T3L]: nodes, depth and leaves of a published tree, a task each node",
     .flags = WSD_FN_IDEMPOTENT,
     .run = run},
};

WSD_PLUGIN(.n_functions = ARRAY_SIZE(functions), .functions = functions, .name = "uts", .version = "0.1.0",
           .help = "fork/join yardstick: unbalanced tree search");
