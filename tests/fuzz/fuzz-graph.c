/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-graph.c: any bytes as the file of `wsctl run`.
 * Keeps: The file is refused in one line that names it, or it is a graph. Then each node has a name and a plugin, and
 * the graph has no cycle: taking away nodes without predecessors, again and again, leaves nothing. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "client/wsctl/local.h"
#include "client/wsctl/ctl.h"
#include "client/wsctl/graph.h"

ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __real_write(int fd, const void *data, size_t size);

/* Of a verb that is linked and not called. */
int __wrap_submit_local(const struct ctl *ctl, const struct submit_options *options);
int __wrap_submit_local(const struct ctl *ctl, const struct submit_options *options)
{
    return 0;
}

static char said[8192];
static size_t n_said;
static bool listening;

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    if (fd != STDERR_FILENO || !listening)
        return __real_write(fd, data, size);
    FUZZ_CHECK(n_said + size < sizeof(said));
    memcpy(said + n_said, data, size);
    n_said += size;
    said[n_said] = 0;
    return (ssize_t)size;
}

static void check_order(const struct graph *graph)
{
    bool *gone = calloc(graph->n_nodes, sizeof(*gone));
    size_t n = 0;

    for (bool moved = true; gone && moved;) {
        moved = false;
        for (size_t i = 0; i < graph->n_nodes; i++) {
            size_t left = 0;

            for (size_t e = 0; e < graph->nodes[i].n_edges; e++) {
                FUZZ_CHECK(graph->nodes[i].edges[e].node < graph->n_nodes);
                left += !gone[graph->nodes[i].edges[e].node];
            }
            if (!gone[i] && left == 0) {
                gone[i] = moved = true;
                n++;
            }
        }
    }
    FUZZ_CHECK(n == graph->n_nodes);
    free(gone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct graph graph;

    n_said = 0;
    listening = true;
    int r = graph_parse("file", (const char *)data, size, &graph);
    listening = false;
    if (r != 0) {
        FUZZ_CHECK(r == CODE_USAGE && strncmp(said, "wsctl: file:", 12) == 0);
        FUZZ_CHECK(memchr(said, '\n', n_said) == said + n_said - 1);
        return 0;
    }
    FUZZ_CHECK(n_said == 0 && graph.n_nodes > 0);
    for (size_t i = 0; i < graph.n_nodes; i++)
        FUZZ_CHECK(*graph.nodes[i].name && *graph.nodes[i].options.job.plugin);
    check_order(&graph);
    graph_deinit(&graph);
    return 0;
}
