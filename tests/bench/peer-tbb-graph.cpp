// SPDX-License-Identifier: Apache-2.0
//
// peer-tbb-graph.cpp: what graph.c does, with oneTBB's flow graph of continue_nodes.
#include <cstdlib>
#include <deque>
#include <functional>
#include <oneapi/tbb.h>

extern "C" {
#include "bench.h"
}

namespace flow = tbb::flow;
using node = flow::continue_node<flow::continue_msg>;

static int workers;
static uint32_t steps;
static volatile uint64_t sink, seed;

struct built {
    flow::graph graph;
    std::deque<node> nodes;

    node &add()
    {
        nodes.emplace_back(graph, [](const flow::continue_msg &m) {
            uint64_t x = seed;
            for (uint32_t i = 0; i < steps; i++)
                x = mix(x);
            if (steps)
                sink = x;
            return m;
        });
        return nodes.back();
    }
};

static void bench(const char *what, uint32_t n, uint32_t first, const std::function<void(built &)> &build)
{
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, (size_t)workers);
    tbb::task_arena arena(workers);
    uint64_t least = UINT64_MAX, build_nsec = 0;
    char params[64];

    arena.execute([&] {
        built b;
        uint64_t begin = now_nsec();
        build(b);
        build_nsec = now_nsec() - begin;
        for (int i = 0; i < 5 * BEST_OF; i++) {
            begin = now_nsec();
            for (int k = 0; k < 20; k++) {
                for (uint32_t f = 0; f < first; f++)
                    b.nodes[f].try_put(flow::continue_msg());
                b.graph.wait_for_all();
            }
            uint64_t nsec = now_nsec() - begin;
            least = nsec < least ? nsec : least;
        }
    });
    snprintf(params, sizeof(params), "%s,build,workers=%d", what, workers);
    say(params, "ns/node", (double)build_nsec / n);
    snprintf(params, sizeof(params), "%s,workers=%d", what, workers);
    say(params, "ns/node", (double)least / 20 / n);
}

static void chain(built &b)
{
    for (size_t i = 0; i < GRAPH_CHAIN; i++) {
        node &n = b.add();
        if (i > 0)
            flow::make_edge(b.nodes[i - 1], n);
    }
}

static void wide(built &b)
{
    node &first = b.add(), &last = b.add();

    for (size_t i = 2; i < GRAPH_WIDE; i++) {
        node &n = b.add();
        flow::make_edge(first, n);
        flow::make_edge(n, last);
    }
}

static void tree(built &b)
{
    for (size_t i = 0; i < GRAPH_TREE; i++) {
        node &n = b.add();
        if (i > 0)
            flow::make_edge(b.nodes[(i - 1) / 2], n);
    }
}

static void layers(built &b)
{
    for (size_t l = 0; l < GRAPH_LAYERS; l++)
        for (size_t c = 0; c < GRAPH_ACROSS; c++) {
            node &n = b.add();
            for (size_t k = 0; l > 0 && k < 3; k++)
                flow::make_edge(b.nodes[(l - 1) * GRAPH_ACROSS + (c + k) % GRAPH_ACROSS], n);
        }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 64;
    workers = atoi(argv[2]);
    bench("graph=chain,n=100000", GRAPH_CHAIN, 1, chain);
    bench("graph=wide,n=1000", GRAPH_WIDE, 1, wide);
    bench("graph=tree,n=65535", GRAPH_TREE, 1, tree);
    bench("graph=layers,n=4096", GRAPH_LAYERS * GRAPH_ACROSS, GRAPH_ACROSS, layers);
    steps = 500;
    bench("graph=layers,n=4096,node=1us", GRAPH_LAYERS * GRAPH_ACROSS, GRAPH_ACROSS, layers);
    bench("graph=wide,n=1000,node=1us", GRAPH_WIDE, 1, wide);
    return 0;
}
