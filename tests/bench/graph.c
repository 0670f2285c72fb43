/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.c: graphs of empty nodes, and the plain loop that calls the same functions.
 *
 *     bench-graph graph WORKERS      0 workers: the serial ones */
#include "base/eventcount.h"
#include "bench.h"
#include "pool/pool.h"
#include "wsd/graph.h"

#define REPEATS 20u

static uint32_t workers, steps;
static volatile uint64_t sink;

static int work(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    uint64_t x = (uintptr_t)arg;

    for (uint32_t i = 0; i < steps; i++)
        x = mix(x);
    if (steps)
        sink = x;
    return 0;
}

static uint64_t turns;

static int again(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    return ++turns % GRAPH_TURNS == 0;
}

static struct wsd_node *nodes[GRAPH_CHAIN];
static uint32_t n_nodes;

static struct wsd_node *add(struct wsd_graph *g)
{
    struct wsd_node *n;

    if (wsd_graph_add(g, NULL, work, NULL, &n) != 0)
        exit(1);
    return nodes[n_nodes++] = n;
}

static void edge(struct wsd_node *a, struct wsd_node *b)
{
    if (wsd_graph_precede(a, b) != 0)
        exit(1);
}

static void build_chain(struct wsd_graph *g)
{
    for (uint32_t i = 0; i < GRAPH_CHAIN; i++) {
        add(g);
        if (i > 0)
            edge(nodes[i - 1], nodes[i]);
    }
}

static void build_wide(struct wsd_graph *g)
{
    struct wsd_node *first = add(g), *last = add(g);

    for (uint32_t i = 2; i < GRAPH_WIDE; i++) {
        edge(first, add(g));
        edge(nodes[i], last);
    }
}

static void build_diamond(struct wsd_graph *g)
{
    struct wsd_node *first = add(g), *left = add(g), *right = add(g), *last = add(g);

    edge(first, left);
    edge(first, right);
    edge(left, last);
    edge(right, last);
}

static void build_tree(struct wsd_graph *g)
{
    for (uint32_t i = 0; i < GRAPH_TREE; i++) {
        add(g);
        if (i > 0)
            edge(nodes[(i - 1) / 2], nodes[i]);
    }
}

/* Each waits for three of the layer before. */
static void build_layers(struct wsd_graph *g)
{
    for (uint32_t l = 0; l < GRAPH_LAYERS; l++)
        for (uint32_t c = 0; c < GRAPH_ACROSS; c++) {
            add(g);
            for (uint32_t k = 0; l > 0 && k < 3; k++)
                edge(nodes[(l - 1) * GRAPH_ACROSS + (c + k) % GRAPH_ACROSS], nodes[l * GRAPH_ACROSS + c]);
        }
}

static void build_loop(struct wsd_graph *g)
{
    struct wsd_node *first = add(g), *body = add(g), *c;

    if (wsd_graph_add_condition(g, NULL, again, NULL, &c) != 0)
        exit(1);
    edge(first, body);
    edge(body, c);
    edge(c, body);
}

struct root {
    struct pool_node node; /* first */
    void (*build)(struct wsd_graph *g);
    uint64_t build_nsec, run_nsec;
    struct eventcount event;
    _Atomic bool done;
};

static void root_run(struct pool_node *node, struct wsd_worker *self)
{
    struct root *r = (struct root *)(void *)node;
    struct wsd_graph *g;
    uint64_t begin = now_nsec();

    if (wsd_graph_new(self, &g) != 0)
        exit(1);
    n_nodes = 0;
    r->build(g);
    r->build_nsec = now_nsec() - begin;
    wsd_graph_run(self, NULL, g);
    r->run_nsec = UINT64_MAX;
    for (int i = 0; i < 5 * BEST_OF; i++) {
        begin = now_nsec();
        wsd_graph_run_n(self, NULL, g, n_nodes == 4 ? 100 * REPEATS : REPEATS);
        uint64_t nsec = (now_nsec() - begin) / (n_nodes == 4 ? 100 : 1);
        if (nsec < r->run_nsec)
            r->run_nsec = nsec;
    }
    wsd_graph_free(g);
    atomic_store(&r->done, true);
    eventcount_notify(&r->event, 1, false);
}

static void bench(const char *what, uint32_t n, void (*build)(struct wsd_graph *g))
{
    struct pool_options o = {.workers = workers};
    struct pool *pool;
    struct root *r = calloc(1, sizeof(*r)); /* kept: root_run() notifies after it has set done */
    char params[64];

    *r = (struct root){.node.run = root_run, .build = build};
    if (pool_new(&pool, &o) != 0)
        exit(1);
    pool_submit(pool, &r->node);
    while (!atomic_load(&r->done)) {
        uint32_t epoch = eventcount_prepare(&r->event);
        if (atomic_load(&r->done))
            eventcount_cancel(&r->event);
        else
            eventcount_wait(&r->event, epoch, UINT64_MAX, false);
    }
    pool_free(pool);
    if (n == n_nodes) {
        snprintf(params, sizeof(params), "%s,build,workers=%u", what, workers);
        say(params, "ns/node", (double)r->build_nsec / n);
    }
    snprintf(params, sizeof(params), "%s,workers=%u", what, workers);
    say(params, "ns/node", (double)r->run_nsec / REPEATS / n);
}

static void serial(const char *what, uint32_t n)
{
    wsd_node_fn *volatile fn = work;
    uint64_t begin = now_nsec();
    char params[64];

    for (uint32_t i = 0; i < n; i++)
        fn(NULL, NULL, NULL);
    snprintf(params, sizeof(params), "%s,workers=1", what);
    say(params, "ns/node", (double)(now_nsec() - begin) / n);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 64;
    workers = (uint32_t)atoi(argv[2]);
    if (!workers) {
        serial("graph=chain,n=100000", GRAPH_CHAIN);
        return 0;
    }
    bench("graph=diamond,n=4", 4, build_diamond);
    bench("graph=chain,n=100000", GRAPH_CHAIN, build_chain);
    bench("graph=wide,n=1000", GRAPH_WIDE, build_wide);
    bench("graph=tree,n=65535", GRAPH_TREE, build_tree);
    bench("graph=layers,n=4096", GRAPH_LAYERS * GRAPH_ACROSS, build_layers);
    bench("graph=loop,n=200000", 2 * GRAPH_TURNS, build_loop);
    steps = 500;
    bench("graph=layers,n=4096,node=1us", GRAPH_LAYERS * GRAPH_ACROSS, build_layers);
    bench("graph=wide,n=1000,node=1us", GRAPH_WIDE, build_wide);
    return 0;
}
