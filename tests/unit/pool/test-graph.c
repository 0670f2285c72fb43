/* SPDX-License-Identifier: Apache-2.0
 *
 * test-graph.c: task graphs of wsd/graph.h: order, conditions, repeated runs, and what nodes may do. */
#include "graph.h"

#include <sched.h>

#include "pool/worker.h"

/* test-graph-cxx.cpp, where there is a C++ compiler */
int cxx_graph(struct wsd_worker *self);

/* --- order --- */

struct step {
    struct step *before[2];
    uint64_t ran;
};

static int step(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct step *s = arg;

    s->ran++;
    for (size_t i = 0; i < 2; i++)
        ck_assert(!s->before[i] || s->before[i]->ran == s->ran);
    return 0;
}

static void do_diamond(struct wsd_worker *self, void *arg)
{
    struct step a = {.ran = 0}, b = {.before = {&a}}, c = {.before = {&a}}, d = {.before = {&b, &c}};
    struct wsd_graph *g = new_graph(self);
    struct wsd_node *na = add(g, "a", step, &a), *nb = add(g, "b", step, &b), *nc = add(g, "c", step, &c),
                    *nd = add(g, "d", step, &d);

    edge(nc, nd);
    edge(na, nb);
    edge(na, nc);
    edge(nb, nd);
    for (uint64_t i = 1; i <= 1000; i++) {
        ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
        ck_assert(a.ran == i && b.ran == i && c.ran == i && d.ran == i);
    }
    wsd_graph_free(g);
}

START_TEST(a_diamond_runs_in_order_as_often_as_it_is_run)
{
    on_workers(_i, do_diamond, NULL);
}
END_TEST

static int count_run(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
    return 0;
}

static void do_without_handles(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self), *inner = new_graph(self);
    _Atomic uint64_t n = 0;

    ck_assert_int_eq(wsd_graph_add(g, "node", count_run, &n, NULL), 0);
    ck_assert_int_eq(wsd_graph_add_condition(g, "condition", count_run, &n, NULL), 0);
    ck_assert_int_eq(wsd_graph_add(inner, NULL, count_run, &n, NULL), 0);
    ck_assert_int_eq(wsd_graph_add_graph(g, "graph", inner, NULL), 0);
    ck_assert_int_eq(wsd_graph_add(g, NULL, NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    ck_assert_uint_eq(n, 3);
    wsd_graph_free(g);
    wsd_graph_free(inner);
}

START_TEST(a_node_that_is_alone_needs_no_handle)
{
    on_workers(_i, do_without_handles, NULL);
}
END_TEST

static void do_wide(struct wsd_worker *self, void *arg)
{
    enum { WIDTH = 20000 };
    static uint64_t counts[WIDTH];
    struct wsd_graph *g = new_graph(self);
    struct step first = {.ran = 0}, last = {.before = {&first}};
    struct wsd_node *nf = add(g, NULL, step, &first), *nl = add(g, NULL, step, &last);

    memset(counts, 0, sizeof(counts));
    for (size_t i = 0; i < WIDTH; i++) {
        struct wsd_node *n = add(g, NULL, add_one, &counts[i]);
        edge(nf, n);
        edge(n, nl);
    }
    for (uint64_t i = 1; i <= count_for(10, 3); i++) {
        ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
        for (size_t k = 0; k < WIDTH; k++)
            ck_assert_uint_eq(counts[k], i);
        ck_assert_uint_eq(last.ran, i);
    }
    wsd_graph_free(g);
}

START_TEST(a_wide_graph_runs_each_node_once)
{
    on_workers(_i, do_wide, NULL);
}
END_TEST

static void do_chain(struct wsd_worker *self, void *arg)
{
    enum { LENGTH = SLOW ? 100000 : 300000 };
    struct wsd_graph *g = new_graph(self);
    struct wsd_node *last = NULL;
    uint64_t count = 0;

    for (size_t i = 0; i < LENGTH; i++) {
        struct wsd_node *n = add(g, NULL, add_one, &count);
        if (last)
            edge(last, n);
        last = n;
    }
    ck_assert_int_eq(wsd_graph_run_n(self, NULL, g, 2), 0);
    ck_assert_uint_eq(count, 2 * LENGTH);
    wsd_graph_free(g);
}

START_TEST(a_long_chain_needs_no_stack)
{
    struct pool_options o = {.workers = sizes[_i], .stack_size = 1 << 18};
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    run_on(pool, do_chain, NULL);
    pool_free(pool);
}
END_TEST

/* A random graph: edges from lower to higher places of a random order. What each node finds is checked by each: all its
 * predecessors have run as often as it has. */
struct vertex {
    struct random_graph *of;
    uint32_t place, n_before, before[8];
    uint64_t ran, sum; /* 1 and all sums before it, modulo 2^64 */
};

struct random_graph {
    uint32_t n;
    struct vertex *vertices;
};

static int visit(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct vertex *v = arg;

    if (v->place % 16 == 0)
        ck_assert_int_eq(WSD_CALL(fib, 10), 55);
    v->ran++;
    v->sum = 1;
    for (uint32_t i = 0; i < v->n_before; i++) {
        const struct vertex *b = &v->of->vertices[v->before[i]];
        ck_assert_uint_eq(b->ran, v->ran);
        v->sum += b->sum;
    }
    return 0;
}

static void do_random(struct wsd_worker *self, void *arg)
{
    uint64_t seed = *(uint64_t *)arg;

    for (int round = 0; round < (SLOW ? 4 : 20); round++) {
        uint32_t n = 1 + (uint32_t)(random_next(&seed) % (SLOW ? 500 : 2000)), *order = malloc(n * sizeof(uint32_t));
        struct random_graph r = {.n = n, .vertices = calloc(n, sizeof(struct vertex))};
        struct wsd_node **nodes = malloc(n * sizeof(struct wsd_node *));
        struct wsd_graph *g = new_graph(self);
        for (uint32_t i = 0; i < n; i++) { /* order[place] is the node */
            uint32_t k = (uint32_t)(random_next(&seed) % (i + 1));
            order[i] = order[k];
            order[k] = i;
        }
        for (uint32_t i = 0; i < n; i++)
            nodes[i] = add(g, NULL, visit, &r.vertices[i]);
        for (uint32_t place = 0; place < n; place++) {
            struct vertex *v = &r.vertices[order[place]];
            v->of = &r;
            v->place = place;
            v->n_before = place ? (uint32_t)(random_next(&seed) % 8) : 0;
            for (uint32_t i = 0; i < v->n_before; i++) {
                v->before[i] = order[random_next(&seed) % place];
                edge(nodes[v->before[i]], nodes[order[place]]);
            }
        }
        ck_assert_int_eq(wsd_graph_run_n(self, NULL, g, 3), 0);
        for (uint32_t place = 0; place < n; place++) { /* the serial check */
            const struct vertex *v = &r.vertices[order[place]];
            uint64_t sum = 1;
            for (uint32_t i = 0; i < v->n_before; i++)
                sum += r.vertices[v->before[i]].sum;
            ck_assert_uint_eq(v->ran, 3);
            ck_assert_uint_eq(v->sum, sum);
        }
        wsd_graph_free(g);
        free(nodes);
        free(r.vertices);
        free(order);
    }
}

START_TEST(random_graphs_run_each_node_once_and_after_what_precedes_it)
{
    uint64_t seed = 88172645463325252u + (uint64_t)_i;

    if (_i % 2)
        pin_to_one_cpu();
    struct pool *pool = new_pool(sizes[_i / 2]);
    run_on(pool, do_random, &seed);
    ck_assert_uint_eq(pool->futures, 0);
    pool_free(pool);
}
END_TEST

/* --- conditions --- */

static int choose(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    return *(int *)arg;
}

static void do_branch(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    uint64_t counts[5] = {0};
    int which;
    struct wsd_node *first = add(g, NULL, add_one, &counts[4]), *c = add_condition(g, NULL, choose, &which);

    edge(first, c);
    for (size_t i = 0; i < 3; i++) {
        struct wsd_node *n = add(g, NULL, add_one, &counts[i]);
        edge(c, n);
        if (i == 1) {
            struct wsd_node *after = add(g, NULL, add_one, &counts[3]);
            edge(n, after);
            edge(first, after); /* so it is left with one to come where another is chosen */
        }
    }
    for (which = 0; which < 5; which++) {
        memset(counts, 0, sizeof(counts));
        ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
        for (int i = 0; i < 3; i++)
            ck_assert_uint_eq(counts[i], i == which);
        ck_assert_uint_eq(counts[3], which == 1);
        ck_assert_uint_eq(counts[4], 1);
    }
    which = INT32_MAX;
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    which = -77;
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -77);
    wsd_graph_free(g);
}

START_TEST(a_condition_runs_the_successor_that_it_names)
{
    on_workers(_i, do_branch, NULL);
}
END_TEST

enum { TURNS = SLOW ? 10000 : 100000 };

static int until_turns(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    return *(uint64_t *)arg < TURNS ? 0 : 1;
}

/* first -> body -> left, right -> both -> condition -> body | end, the condition also to itself */
static void do_loop(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    uint64_t counts[6] = {0};
    struct wsd_node *n[6];

    for (size_t i = 0; i < 6; i++)
        n[i] = add(g, NULL, add_one, &counts[i]);
    struct wsd_node *c = add_condition(g, NULL, until_turns, &counts[1]);
    edge(n[0], n[1]);
    edge(n[1], n[2]);
    edge(n[1], n[3]);
    edge(n[2], n[4]);
    edge(n[3], n[4]);
    edge(n[4], c);
    edge(c, n[1]);
    edge(c, n[5]);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    for (size_t i = 0; i < 6; i++)
        ck_assert_uint_eq(counts[i], i == 0 || i == 5 ? 1 : TURNS);
    wsd_graph_free(g);
}

START_TEST(a_loop_of_a_hundred_thousand_turns_ends)
{
    if (_i % 2)
        pin_to_one_cpu();
    on_workers(_i / 2, do_loop, NULL);
}
END_TEST

static int self_loop(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    uint64_t *count = arg;

    return ++*count < TURNS ? 0 : 1;
}

static void do_self_loop(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    uint64_t turns = 0, ends = 0, begins = 0;
    struct wsd_node *b = add(g, NULL, add_one, &begins), *c = add_condition(g, NULL, self_loop, &turns),
                    *e = add(g, NULL, add_one, &ends);

    edge(b, c);
    edge(c, c);
    edge(c, e);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    ck_assert(begins == 1 && turns == TURNS && ends == 1);
    wsd_graph_free(g);
}

START_TEST(a_condition_may_choose_itself)
{
    on_workers(_i, do_self_loop, NULL);
}
END_TEST

static int wait_for_cancel(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    atomic_fetch_add(&ran, 1);
    while (!wsd_group_cancelled(group))
        sched_yield();
    return 0;
}

static int when_it_runs(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    while (atomic_load(&ran) == 0)
        sched_yield();
    return 0;
}

/* Two conditions choose the same node, the second while it runs. */
static void do_twice(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    int zero = 0;
    struct wsd_node *c = add_condition(g, NULL, choose, &zero), *d = add_condition(g, NULL, when_it_runs, NULL),
                    *n = add(g, NULL, wait_for_cancel, NULL);

    edge(c, n);
    edge(d, n);
    for (int i = 0; i < 100; i++) {
        atomic_store(&ran, 0);
        ck_assert_int_eq(wsd_graph_run(self, NULL, g), -EALREADY);
        ck_assert_uint_eq(ran, 1);
    }
    wsd_graph_free(g);
}

START_TEST(a_node_never_runs_twice_at_once)
{
    on_workers(_i + 1, do_twice, NULL); /* the second one needs a worker of its own */
}
END_TEST

/* --- again and again --- */

static bool at_least(struct wsd_worker *self, uint64_t runs, void *arg)
{
    struct many *m = arg;

    ck_assert_uint_eq(runs, m->asked++);
    ck_assert(all_are(m, runs));
    ck_assert_int_eq(wsd_graph_run(self, NULL, m->graph), -EBUSY);
    return runs == 500;
}

static bool at_once(struct wsd_worker *self, uint64_t runs, void *arg)
{
    return true;
}

static void do_again(struct wsd_worker *self, void *arg)
{
    struct many m;

    many_begin(&m, self);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(wsd_graph_run(self, NULL, m.graph), 0);
    ck_assert(all_are(&m, 1000));
    ck_assert_int_eq(wsd_graph_run_n(self, NULL, m.graph, 1000), 0);
    ck_assert(all_are(&m, 2000));
    ck_assert_int_eq(wsd_graph_run_n(self, NULL, m.graph, 0), 0);
    ck_assert_int_eq(wsd_graph_run_until(self, NULL, m.graph, at_once, NULL), 0);
    ck_assert(all_are(&m, 2000));
    memset(m.counts, 0, sizeof(m.counts));
    ck_assert_int_eq(wsd_graph_run_until(self, NULL, m.graph, at_least, &m), 0);
    ck_assert(all_are(&m, 500));
    ck_assert_uint_eq(m.asked, 501);
    /* it grows between two runs */
    uint64_t more = 0;
    add(m.graph, NULL, add_one, &more);
    ck_assert_int_eq(wsd_graph_run(self, NULL, m.graph), 0);
    ck_assert(all_are(&m, 501));
    ck_assert_uint_eq(more, 1);
    wsd_graph_free(m.graph);
}

START_TEST(a_graph_runs_again_n_times_and_until)
{
    on_workers(_i, do_again, NULL);
}
END_TEST

/* --- graphs and what else there is --- */

static int sum_body(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    atomic_fetch_add_explicit((_Atomic uint64_t *)arg, end - begin, memory_order_relaxed);
    return 0;
}

static int echo(struct wsd_worker *self, void *arg, void **ret_value)
{
    *ret_value = arg;
    return 0;
}

static int uses_all(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    _Atomic uint64_t sum = 0;
    struct wsd_future f;
    void *value;

    wsd_future_begin(self, &f);
    wsd_future_start(self, &f, echo, &f);
    WSD_SPAWN(fib, 12);
    ck_assert_int_eq(wsd_for_each(self, group, 0, 1000, 10, sum_body, &sum), 0);
    ck_assert_uint_eq(sum, 1000);
    ck_assert_int_eq(WSD_SYNC(fib), 144);
    ck_assert_int_eq(wsd_future_wait(self, &f, &value), 0);
    ck_assert_ptr_eq(value, &f);
    return count_one(self, group, arg);
}

static void do_forms(struct wsd_worker *self, void *arg)
{
    enum { WIDTH = 100, DEPTH = 3 };
    struct wsd_graph *g = new_graph(self);

    for (size_t i = 0; i < WIDTH; i++) {
        struct wsd_node *last = NULL;
        for (size_t k = 0; k < DEPTH; k++) {
            struct wsd_node *n = add(g, NULL, uses_all, NULL);
            if (last)
                edge(last, n);
            last = n;
        }
    }
    ran = 0;
    WSD_SPAWN(fib, 15);
    ck_assert_int_eq(wsd_graph_run_n(self, NULL, g, SLOW ? 2 : 10), 0);
    ck_assert_int_eq(WSD_SYNC(fib), 610);
    ck_assert_uint_eq(ran, WIDTH * DEPTH * (SLOW ? 2 : 10));
    wsd_graph_free(g);
}

START_TEST(nodes_spawn_and_use_forms_and_futures)
{
    if (_i % 2)
        pin_to_one_cpu();
    struct pool *pool = new_pool(sizes[_i / 2]);
    run_on(pool, do_forms, NULL);
    ck_assert_uint_eq(pool->futures, 0);
    pool_free(pool);
}
END_TEST

static struct wsd_future promise;

static int waits(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    return wsd_future_wait(self, &promise, NULL);
}

static int sets(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    wsd_future_set(&promise, NULL, 0);
    return 0;
}

/* A node that waits for another one hides it from no worker, wherever it lies in the list, on any number of workers. */
static void do_promise(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);
    struct wsd_node *begin = add(g, NULL, count_one, NULL);

    edge(begin, add(g, NULL, waits, NULL));
    edge(begin, add(g, NULL, waits, NULL));
    edge(begin, add(g, NULL, sets, NULL));
    edge(begin, add(g, NULL, waits, NULL));
    for (int i = 0; i < 20; i++) {
        wsd_future_begin(self, &promise);
        ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    }
    wsd_graph_free(g);
}

START_TEST(a_node_that_waits_hides_no_other_one)
{
    on_workers(_i, do_promise, NULL);
}
END_TEST

static int run_arg(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct many m;

    many_begin(&m, self);
    int error = wsd_graph_run_n(self, group, m.graph, 3);
    ck_assert(error || all_are(&m, 3));
    wsd_graph_free(m.graph);
    return error;
}

static void do_inner(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self), *inner = new_graph(self);
    struct wsd_node *last = NULL, *n;
    int error = 0;

    n = add(inner, NULL, count_one, NULL);
    edge(n, add(inner, NULL, fails, &error));
    edge(n, add(inner, NULL, count_one, NULL));
    for (int i = 0; i < 20; i++) {
        add(g, NULL, run_arg, NULL);
        ck_assert_int_eq(wsd_graph_add_graph(g, NULL, inner, &n), 0);
        if (last)
            edge(last, n);
        last = n;
    }
    for (int i = 0; i < (SLOW ? 3 : 20); i++) {
        ran = 0;
        ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
        ck_assert_uint_eq(ran, 60);
    }
    error = 3;
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 3);
    wsd_graph_free(g);
    g = new_graph(self);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(wsd_graph_add_graph(inner, NULL, g, &n), 0);
    ck_assert_int_eq(wsd_graph_add_graph(g, NULL, inner, &n), 0);
    error = 0;
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), -EBUSY); /* g in inner in g */
    wsd_graph_free(g);
    wsd_graph_free(inner);
}

START_TEST(graphs_run_inside_of_nodes_and_as_nodes)
{
    on_workers(_i, do_inner, NULL);
}
END_TEST

static void do_many(struct wsd_worker *self, void *arg)
{
    struct many m;

    many_begin(&m, self);
    ck_assert_int_eq(wsd_graph_run_n(self, NULL, m.graph, SLOW ? 50 : 500), 0);
    ck_assert(all_are(&m, SLOW ? 50 : 500));
    wsd_graph_free(m.graph);
}

START_TEST(roots_run_graphs_of_their_own_at_once)
{
    enum { ROOTS = 8 };
    struct pool *pool = new_pool(sizes[_i]);
    static struct root roots[ROOTS];

    for (int i = 0; i < ROOTS; i++)
        root_submit(pool, &roots[i], do_many, NULL);
    while (pool_try_run_one(pool)) /* guests may take a piece */
        ;
    for (int i = 0; i < ROOTS; i++)
        root_wait(&roots[i]);
    ck_assert_uint_eq(pool->futures, 0);
    pool_free(pool);
}
END_TEST

/* An ordinary lock that is held across a run. Taking it again on this stack would hang, as it would on the stack of a
 * worker that runs a node of the graph. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int joins(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    ck_assert_uint_ge(worker_of(self)->pool->futures, 1);
    WSD_SPAWN(fib, 12);
    ck_assert_int_eq(WSD_CALL(fib, 11), 89);
    ck_assert_int_eq(WSD_SYNC(fib), 144);
    return count_one(self, group, arg);
}

WSD_VOID_TASK_1(locked, int, depth)
{
    if (depth > 0) {
        WSD_SPAWN(locked, depth - 1);
        WSD_SPAWN(locked, depth - 1);
        WSD_SYNC(locked);
        WSD_SYNC(locked);
        return;
    }
    ck_assert_int_eq(pthread_mutex_lock(&lock), 0);
    wsd_own_begin(self);
    struct wsd_graph *g = new_graph(self);
    for (int i = 0; i < 8; i++)
        add(g, NULL, joins, NULL);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    wsd_graph_free(g);
    wsd_own_end(self);
    pthread_mutex_unlock(&lock);
}

static void do_locked(struct wsd_worker *self, void *arg)
{
    WSD_CALL(locked, 6);
}

START_TEST(a_lock_may_be_held_across_a_run)
{
    struct pool *pool = new_pool(sizes[_i]);

    ran = 0;
    for (int i = 0; i < (SLOW ? 2 : 20); i++)
        run_on(pool, do_locked, NULL);
    ck_assert_uint_eq(ran, (SLOW ? 2 : 20) * 64 * 8);
    pool_free(pool);
}
END_TEST

/* Tasks that the caller spawned before the run are not descendants of the graph, whatever the caller runs in its wait.
 * A node on another worker waits for a task that the caller has taken from it. That node must not take the older tasks
 * from the caller: they may want a lock that the caller holds. */
static _Atomic bool node_runs, taken, node_waits;
static _Atomic int in_the_wait;
static _Thread_local bool here;

WSD_VOID_TASK_0(nothing)
{
}

WSD_VOID_TASK_0(older)
{
    atomic_fetch_add(&in_the_wait, here);
}

WSD_VOID_TASK_0(is_taken)
{
    atomic_store(&taken, true);
    while (!atomic_load(&node_waits))
        sched_yield();
    for (int i = 0; i < 200; i++) { /* long enough for the node to look for what it may take */
        WSD_SPAWN(nothing);
        usleep(100);
        WSD_SYNC(nothing);
    }
}

static int waits_elsewhere(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    if (atomic_exchange(&node_runs, true))
        return 0;
    WSD_SPAWN(is_taken);
    while (!atomic_load(&taken))
        sched_yield();
    here = true;
    atomic_store(&node_waits, true);
    WSD_SYNC(is_taken);
    here = false;
    return 0;
}

static int waits_for_the_other(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    while (!atomic_load(&node_runs))
        sched_yield();
    return 0;
}

/* Each of the two may run either node. The caller must not get the node that waits. */
static int either(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    return worker_of(self) == arg ? waits_for_the_other(self, group, NULL) : waits_elsewhere(self, group, NULL);
}

static void do_older(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);

    for (int i = 0; i < 2; i++)
        add(g, NULL, either, worker_of(self));
    for (int i = 0; i < 8; i++)
        WSD_SPAWN(older);
    ck_assert_int_eq(wsd_graph_run(self, NULL, g), 0);
    for (int i = 0; i < 8; i++)
        WSD_SYNC(older);
    wsd_graph_free(g);
}

START_TEST(what_the_caller_spawned_before_is_not_of_the_run)
{
    struct pool *pool = new_pool(2);

    in_the_wait = 0;
    for (uint32_t i = 0; i < count_for(20, 5); i++) {
        node_runs = taken = node_waits = false;
        run_on(pool, do_older, NULL);
    }
    ck_assert_int_eq(in_the_wait, 0);
    pool_free(pool);
}
END_TEST

/* Contexts: each node finds that of the root that runs the graph, and the hooks pair up. */
static _Atomic uint64_t entered, left;

static void enter(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    atomic_fetch_add(&entered, 1);
    ck_assert_ptr_eq(self->context, task_context);
}

static void leave(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    atomic_fetch_add(&left, 1);
    ck_assert_ptr_eq(self->context, task_context);
}

static int see_context(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    ck_assert_ptr_eq(self->context, arg);
    ck_assert_int_eq(WSD_CALL(fib, 8), 21);
    ck_assert_ptr_eq(self->context, arg);
    return 0;
}

static void do_context(struct wsd_worker *self, void *arg)
{
    struct wsd_graph *g = new_graph(self);

    self->context = arg;
    for (int i = 0; i < 1000; i++)
        add(g, NULL, see_context, arg);
    ck_assert_int_eq(wsd_graph_run_n(self, NULL, g, count_for(5, 2)), 0);
    ck_assert_ptr_eq(self->context, arg);
    wsd_graph_free(g);
}

START_TEST(nodes_run_in_the_context_of_the_caller)
{
    struct pool_options o = {.workers = 4, .task_enter = enter, .task_leave = leave};
    static struct root roots[4];
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    for (int i = 0; i < 4; i++)
        root_submit(pool, &roots[i], do_context, &roots[i]);
    for (int i = 0; i < 4; i++)
        root_wait(&roots[i]);
    pool_free(pool);
    ck_assert_uint_eq(entered, left);
}
END_TEST

#ifdef HAVE_CXX
static void do_cxx(struct wsd_worker *self, void *arg)
{
    ck_assert_int_eq(cxx_graph(self), 0);
}

START_TEST(graphs_work_in_cxx_with_lambdas)
{
    on_workers(_i, do_cxx, NULL);
}
END_TEST
#endif

int main(void)
{
    Suite *s = suite_create("graph");
    TCase *t = tcase_create("graph");

    tcase_set_timeout(t, SLOW ? 300 : 60);
    tcase_add_loop_test(t, a_diamond_runs_in_order_as_often_as_it_is_run, 0, N_SIZES);
    tcase_add_loop_test(t, a_node_that_is_alone_needs_no_handle, 0, N_SIZES);
    tcase_add_loop_test(t, a_wide_graph_runs_each_node_once, 0, N_SIZES);
    tcase_add_loop_test(t, a_long_chain_needs_no_stack, 0, 2);
    tcase_add_loop_test(t, random_graphs_run_each_node_once_and_after_what_precedes_it, 0, 2 * N_SIZES);
    tcase_add_loop_test(t, a_condition_runs_the_successor_that_it_names, 0, N_SIZES);
    tcase_add_loop_test(t, a_loop_of_a_hundred_thousand_turns_ends, 0, 2 * N_SIZES);
    tcase_add_loop_test(t, a_condition_may_choose_itself, 0, N_SIZES);
    tcase_add_loop_test(t, a_node_never_runs_twice_at_once, 0, N_SIZES - 1);
    tcase_add_loop_test(t, a_graph_runs_again_n_times_and_until, 0, N_SIZES);
    tcase_add_loop_test(t, nodes_spawn_and_use_forms_and_futures, 0, 2 * N_SIZES);
    tcase_add_loop_test(t, a_node_that_waits_hides_no_other_one, 0, N_SIZES);
    tcase_add_loop_test(t, graphs_run_inside_of_nodes_and_as_nodes, 0, N_SIZES);
    tcase_add_loop_test(t, roots_run_graphs_of_their_own_at_once, 0, N_SIZES);
    tcase_add_loop_test(t, a_lock_may_be_held_across_a_run, 0, N_SIZES);
    tcase_add_test(t, what_the_caller_spawned_before_is_not_of_the_run);
    tcase_add_test(t, nodes_run_in_the_context_of_the_caller);
#ifdef HAVE_CXX
    tcase_add_loop_test(t, graphs_work_in_cxx_with_lambdas, 0, N_SIZES);
#endif
    suite_add_tcase(s, t);
    return run_suite(s);
}
