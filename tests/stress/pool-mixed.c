/* SPDX-License-Identifier: Apache-2.0
 *
 * pool-mixed.c: everything at once. Roots are random programs. Their parts are trees of tasks, rows that overflow a
 * tiny task stack, random graphs of futures, own sections with a lock across their joins. Others are loops, words,
 * waits that block, and more roots.
 * Outside, producers submit them. Guests run some themselves, wait for futures and help. One thread changes the number
 * of workers, and one closes the pool in the middle. Each program knows its result. Nothing is lost, run twice, or left
 * in a count. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "pool-stress.h"
#include "pool/worker.h"
#include "wsd/future.h"

#define LOCKS 4

/* --- programs --- */

struct context {
    struct pool *pool;
    pthread_mutex_t lock[LOCKS];
    uint64_t guarded[LOCKS]; /* [lock] */
    _Atomic uint64_t wanted[LOCKS];
    _Atomic uint32_t accepted, ran, inner;
};

struct program {
    struct pool_node node; /* first */
    struct context *c;
    struct program *next; /* submitted from inside */
    uint32_t seed;
    _Atomic uint32_t runs;
    bool outside_waits;
};

/* Each part gives the same value for the same seed, however it is run. */
static uint64_t part(struct wsd_worker *self, struct program *p, uint32_t seed, uint32_t depth);

WSD_TASK_3(uint64_t, part_task, struct program *, p, uint32_t, seed, uint32_t, depth)
{
    CHECK(self->context == p);
    uint64_t value = part(self, p, seed, depth);
    CHECK(self->context == p);
    return value;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * 0x9e3779b97f4a7c15u;
    return a ^ a >> 29;
}

static uint64_t leaf(uint32_t seed)
{
    if (seed % 61 == 0)
        stress_burn(seed % 30000);
    return mix(seed, 1);
}

WSD_TASK_1(uint64_t, leaf_task, uint32_t, seed)
{
    return leaf(seed);
}

WSD_VOID_TASK_2(leaf_void, uint32_t, seed, uint64_t *, ret)
{
    *ret = leaf(seed);
}

WSD_TASK_2(uint64_t, twig, uint32_t, seed, uint32_t, depth)
{
    if (depth == 0)
        return leaf(seed);
    WSD_SPAWN(twig, seed, depth - 1);
    uint64_t b = WSD_CALL(twig, seed + 61, depth - 1);
    return WSD_SYNC(twig) ^ b;
}

static uint64_t twig_expected(uint32_t seed, uint32_t depth)
{
    return depth == 0 ? mix(seed, 1) : twig_expected(seed, depth - 1) ^ twig_expected(seed + 61, depth - 1);
}

/* Rows: longer than a tiny task stack. */
static uint64_t row(struct wsd_worker *self, uint32_t seed)
{
    uint32_t n = seed % 90 + 1;
    uint64_t out[90], sum = 0;

    if (seed & 256) {
        for (uint32_t i = 0; i < n; i++)
            WSD_SPAWN(leaf_task, seed + i);
        for (uint32_t i = n; i-- > 0;)
            sum = mix(sum, WSD_SYNC(leaf_task));
    } else {
        for (uint32_t i = 0; i < n; i++)
            WSD_SPAWN(leaf_void, seed + i, &out[i]);
        for (uint32_t i = n; i-- > 0;) {
            WSD_SYNC(leaf_void);
            sum = mix(sum, out[i]);
        }
    }
    return sum;
}

static uint64_t row_expected(uint32_t seed)
{
    uint64_t sum = 0;

    for (uint32_t i = seed % 90 + 1; i-- > 0;)
        sum = mix(sum, mix(seed + i, 1));
    return sum;
}

static uint64_t word(struct wsd_worker *self, uint64_t n)
{
    if (n < 2)
        return n;
    self->ops->spawn_word(self, word, n - 1);
    uint64_t b = word(self, n - 2);
    return self->ops->sync_word(self) + b;
}

static void add_range(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    atomic_fetch_add_explicit((_Atomic uint64_t *)arg, (begin + end - 1) * (end - begin) / 2, memory_order_relaxed);
}

/* A graph: node i waits for up to three before it, in any order; started in any order. */
enum { NODES = 24 };

struct graph {
    struct program *p;
    uint32_t seed, depth;
    struct cell {
        struct wsd_future future;
        struct graph *graph;
        uint32_t index;
        bool promise;
        uint64_t expected;
    } cell[NODES];
};

static uint32_t before(const struct graph *g, uint32_t i, uint32_t k)
{
    uint32_t seed = g->seed + i * 31 + k * 7 + 1;

    return stress_random(&seed) % i;
}

static int cell_error(const struct cell *c)
{
    return c->expected % 5 == 0 ? (int)(c->expected % 1000) : 0;
}

static int cell_run(struct wsd_worker *self, void *arg, void **ret_value)
{
    struct cell *c = arg;
    struct graph *g = c->graph;
    uint64_t sum = c->index;
    void *value;

    CHECK(self->context == g->p);
    WSD_SPAWN(leaf_task, c->index);
    for (uint32_t k = 0; k < 3 && c->index > 0; k++) {
        struct cell *b = &g->cell[before(g, c->index, k)];
        CHECK(wsd_future_wait(self, &b->future, &value) == cell_error(b));
        sum = mix(sum, (uintptr_t)value);
    }
    if (c->index % 8 == 3)
        sum = mix(sum, row(self, g->seed + c->index));
    CHECK(WSD_SYNC(leaf_task) == mix(c->index, 1));
    CHECK(sum == c->expected);
    *ret_value = (void *)(uintptr_t)sum;
    return cell_error(c);
}

WSD_VOID_TASK_1(set_promise, struct cell *, c)
{
    wsd_future_set(&c->future, (void *)(uintptr_t)c->expected, cell_error(c));
}

/* A task that would bury the cell that it waits for. */
WSD_VOID_TASK_1(wait_for, struct cell *, c)
{
    void *value;

    CHECK(wsd_future_wait(self, &c->future, &value) == cell_error(c) && (uintptr_t)value == c->expected);
}

static void graph_expect(struct graph *g)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct cell *c = &g->cell[i];
        c->graph = g;
        c->index = i;
        c->promise = (g->seed >> i % 13 & 7) == 0;
        c->expected = i;
        for (uint32_t k = 0; k < 3 && i > 0; k++)
            c->expected = mix(c->expected, g->cell[before(g, i, k)].expected);
        if (i % 8 == 3)
            c->expected = mix(c->expected, row_expected(g->seed + i));
    }
}

static uint64_t graph(struct wsd_worker *self, struct program *p, uint32_t seed)
{
    struct graph g = {.p = p, .seed = seed};
    uint32_t promises = 0, step = seed % 2 ? 7 : 5;
    uint64_t sum = 0;
    void *value;

    graph_expect(&g);
    for (uint32_t i = 0; i < NODES; i++)
        wsd_future_begin(self, &g.cell[i].future);
    for (uint32_t i = 0; i < NODES; i++) {
        struct cell *c = &g.cell[i * step % NODES];
        if (c->promise) {
            WSD_SPAWN(set_promise, c);
            promises++;
        } else {
            wsd_future_start(self, &c->future, cell_run, c);
        }
    }
    for (uint32_t i = 0; i < NODES; i += 3)
        WSD_SPAWN(wait_for, &g.cell[i]);
    if (seed % 3 == 0)
        sched_yield();
    for (uint32_t i = 0; i < NODES; i += 3)
        WSD_SYNC(wait_for);
    for (; promises; promises--)
        WSD_SYNC(set_promise);
    for (uint32_t i = NODES; i-- > 0;) {
        CHECK(wsd_future_wait(self, &g.cell[i].future, &value) == cell_error(&g.cell[i]));
        CHECK((uintptr_t)value == g.cell[i].expected);
        CHECK(wsd_future_done(&g.cell[i].future));
        sum = mix(sum, (uintptr_t)value);
    }
    return sum;
}

static uint64_t graph_value(struct program *p, uint32_t seed)
{
    static _Thread_local struct graph g;
    uint64_t sum = 0;

    g.seed = seed;
    graph_expect(&g);
    for (uint32_t i = NODES; i-- > 0;)
        sum = mix(sum, g.cell[i].expected);
    return sum;
}

/* An ordinary lock, held across joins: a second one on this stack hangs. */
static uint64_t locked(struct wsd_worker *self, struct program *p, uint32_t seed)
{
    uint32_t l = seed % LOCKS;
    bool blocks = seed % 7 == 0;

    atomic_fetch_add(&p->c->wanted[l], 1);
    if (blocks)
        wsd_blocking_begin(self);
    pthread_mutex_lock(&p->c->lock[l]);
    if (blocks)
        wsd_blocking_end(self);
    wsd_own_begin(self);
    uint64_t was = p->c->guarded[l], sum = row(self, seed);
    WSD_SPAWN(twig, seed, 5);
    sum = mix(sum, leaf(seed + 1));
    sum = mix(sum, WSD_SYNC(twig));
    CHECK(p->c->guarded[l] == was);
    p->c->guarded[l] = was + 1;
    wsd_own_end(self);
    pthread_mutex_unlock(&p->c->lock[l]);
    return sum;
}

static uint64_t part(struct wsd_worker *self, struct program *p, uint32_t seed, uint32_t depth)
{
    uint32_t own = seed * 2654435761u | 1, n = stress_random(&own) % 4 + 1, kind = stress_random(&own) % 16;
    _Atomic uint64_t total = 0;
    uint64_t sum = seed;

    switch (kind) {
    case 0:
        sum = mix(sum, row(self, seed));
        break;
    case 1:
        if (depth >= 2)
            sum = mix(sum, graph(self, p, seed));
        break;
    case 2:
        sum = mix(sum, locked(self, p, seed));
        break;
    case 3:
        wsd_blocking_begin(self);
        usleep(seed % 50);
        wsd_blocking_end(self);
        break;
    case 8: /* does not say so */
        if (seed % 16 == 0)
            usleep(200);
        break;
    case 4:
        wsd_for(self, seed % 100, 1000, seed % 3 ? 10 : 0, add_range, &total);
        sum = mix(sum, total);
        break;
    case 5:
        sum = mix(sum, word(self, seed % 12));
        break;
    }
    if (depth == 0)
        return sum;
    for (uint32_t i = 0; i < n; i++) {
        WSD_SPAWN(part_task, p, seed * 31 + i, depth - 1);
        if (kind == 6 && i == 0) { /* blocks with something to steal */
            wsd_blocking_begin(self);
            usleep(20);
            wsd_blocking_end(self);
        }
    }
    if (kind == 7)
        sum = mix(sum, row(self, seed));
    for (uint32_t i = n; i-- > 0;)
        sum = mix(sum, WSD_SYNC(part_task));
    return sum;
}

/* The same, in one thread. */
static uint64_t expected(struct program *p, uint32_t seed, uint32_t depth)
{
    static const uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    uint32_t own = seed * 2654435761u | 1, n = stress_random(&own) % 4 + 1, kind = stress_random(&own) % 16;
    uint64_t sum = seed, child[4], first = seed % 100;

    switch (kind) {
    case 0:
        sum = mix(sum, row_expected(seed));
        break;
    case 1:
        if (depth >= 2)
            sum = mix(sum, graph_value(p, seed));
        break;
    case 2:
        sum = mix(sum, mix(mix(row_expected(seed), mix(seed + 1, 1)), twig_expected(seed, 5)));
        break;
    case 4:
        sum = mix(sum, (first + 999) * (1000 - first) / 2);
        break;
    case 5:
        sum = mix(sum, fib[seed % 12]);
        break;
    }
    if (depth == 0)
        return sum;
    for (uint32_t i = 0; i < n; i++)
        child[i] = expected(p, seed * 31 + i, depth - 1);
    if (kind == 7)
        sum = mix(sum, row_expected(seed));
    for (uint32_t i = n; i-- > 0;)
        sum = mix(sum, child[i]);
    return sum;
}

enum { DEPTH = 5 };

static void program_run(struct pool_node *node, struct wsd_worker *self)
{
    struct program *p = (struct program *)(void *)node, *next = p->next;

    CHECK(atomic_fetch_add(&p->runs, 1) == 0);
    self->context = p;
    CHECK(WSD_CALL(part_task, p, p->seed, DEPTH) == expected(p, p->seed, DEPTH));
    CHECK(self->own == 0 && self->inside == 0);
    if (next) {
        atomic_fetch_add(&p->c->inner, 1);
        CHECK(pool_submit(p->c->pool, &next->node) == 0);
    }
    atomic_fetch_add(&p->c->ran, 1);
}

/* --- outside --- */

struct outside {
    pthread_t thread;
    struct context *c;
    uint32_t seed, n;
    struct program *programs; /* n, and n that are submitted from inside */
};

static _Atomic bool stop;

static void *produce(void *arg)
{
    struct outside *o = arg;

    for (uint32_t i = 0; i < o->n; i++) {
        struct program *p = &o->programs[i], *inner = &o->programs[o->n + i];
        *p = (struct program){.node = {.run = program_run}, .c = o->c, .seed = stress_random(&o->seed)};
        *inner = (struct program){.node = {.run = program_run}, .c = o->c, .seed = stress_random(&o->seed)};
        if (i % 4 == 0)
            p->next = inner;
        int r = i % 5 == 4 ? pool_run(o->c->pool, &p->node) : pool_submit(o->c->pool, &p->node);
        if (r == -ESHUTDOWN)
            break;
        CHECK(r == 0);
        atomic_fetch_add(&o->c->accepted, 1);
        if (i % 3 == 0)
            stress_burn(stress_random(&o->seed) % 100000);
    }
    return NULL;
}

/* Futures that a root makes and outside threads start, set and wait for. */
struct shared {
    struct pool_node node; /* first */
    struct context *c;
    struct wsd_future computed, promised;
    _Atomic uint32_t ready;
};

static int double_it(struct wsd_worker *self, void *arg, void **ret_value)
{
    WSD_SPAWN(leaf_task, 5);
    *ret_value = (void *)(2 * (uintptr_t)arg);
    CHECK(WSD_SYNC(leaf_task) == mix(5, 1));
    return 0;
}

static void shared_run(struct pool_node *node, struct wsd_worker *self)
{
    struct shared *s = (struct shared *)(void *)node;
    void *value;

    self->context = NULL;
    wsd_future_begin(self, &s->computed);
    wsd_future_begin(self, &s->promised);
    atomic_store(&s->ready, 1);
    CHECK(wsd_future_wait(self, &s->promised, &value) == 3 && value == s);
    CHECK(wsd_future_wait(self, &s->computed, &value) == 0 && (uintptr_t)value == 42);
    atomic_store(&s->ready, 2);
}

static void *help(void *arg)
{
    struct outside *o = arg;
    struct shared s;
    void *value;

    while (!atomic_load(&stop)) {
        s = (struct shared){.node = {.run = shared_run}, .c = o->c};
        if (pool_submit(o->c->pool, &s.node) != 0)
            break;
        /* A thread that owes a promise must not help: it might run what waits for it. */
        while (atomic_load(&s.ready) == 0)
            sched_yield();
        bool first = stress_random(&o->seed) % 2;
        if (first)
            wsd_future_set(&s.promised, &s, 3);
        wsd_future_start(NULL, &s.computed, double_it, (void *)21);
        if (stress_random(&o->seed) % 2)
            wsd_future_help(&s.computed);
        CHECK(wsd_future_wait(NULL, &s.computed, &value) == 0 && (uintptr_t)value == 42);
        if (!first)
            wsd_future_set(&s.promised, &s, 3);
        while (atomic_load(&s.ready) != 2)
            sched_yield();
        stress_burn(stress_random(&o->seed) % 50000);
    }
    return NULL;
}

static void *visit(void *arg)
{
    struct outside *o = arg;

    while (!atomic_load(&stop))
        if (!pool_try_run_one(o->c->pool))
            stress_burn(stress_random(&o->seed) % 20000);
    return NULL;
}

static void *change(void *arg)
{
    struct outside *o = arg;

    while (!atomic_load(&stop)) {
        int r = pool_set_workers(o->c->pool, stress_random(&o->seed) % o->n + 1);
        if (r == -ESHUTDOWN)
            break;
        CHECK(r == 0);
        stress_burn(stress_random(&o->seed) % 300000);
        sched_yield();
    }
    return NULL;
}

/* --- a round --- */

enum { PRODUCERS = 2, THREADS = PRODUCERS + 3 };

static void *(*const outsides[THREADS])(void *) = {produce, produce, help, visit, change};

static void round_of(const struct pool_options *options, uint32_t programs, bool close_early, uint32_t *seed)
{
    static struct context c;
    struct outside o[THREADS];
    uint32_t runs = 0;

    c = (struct context){.pool = stress_pool(options)};
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&c.lock[i], NULL);
    atomic_store(&stop, false);
    for (int i = 0; i < THREADS; i++) {
        o[i] = (struct outside){.c = &c, .seed = stress_random(seed) | 1, .n = i < PRODUCERS ? programs : 6};
        o[i].programs = calloc(2 * (size_t)programs, sizeof(struct program));
        CHECK(o[i].programs);
        CHECK(pthread_create(&o[i].thread, NULL, outsides[i], &o[i]) == 0);
    }
    if (close_early) {
        stress_burn(stress_random(seed) % 3000000);
        pool_close(c.pool);
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(o[i].thread, NULL);
    atomic_store(&stop, true);
    for (int i = PRODUCERS; i < THREADS; i++)
        pthread_join(o[i].thread, NULL);
    pool_close(c.pool);
    for (int i = 0; i < PRODUCERS; i++)
        for (uint32_t k = 0; k < 2 * programs; k++)
            runs += o[i].programs[k].runs;
    CHECK(c.ran == c.accepted + c.inner);
    CHECK(runs == c.ran);
    CHECK(c.pool->futures == 0);
    for (int i = 0; i < LOCKS; i++) {
        CHECK(c.guarded[i] == c.wanted[i]);
        pthread_mutex_destroy(&c.lock[i]);
    }
    for (uint32_t i = 0; i < pool_workers_seen(c.pool); i++) {
        const struct worker *w = c.pool->all[i];
        CHECK(w->public.top == w->deque.base && w->away == 0);
        CHECK(!ready_any(&w->ready) && !deque_has_public_any(&w->deque));
    }
    pool_free(c.pool);
    for (int i = 0; i < THREADS; i++)
        free(o[i].programs);
}

static void pin(bool one)
{
    static cpu_set_t all;
    cpu_set_t set;

    if (CPU_COUNT(&all) == 0)
        CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    set = all;
    for (size_t i = 0; one && CPU_COUNT(&set) > 1; i++)
        CPU_CLR(i, &set);
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {1, 2, 3, 8}, bytes[] = {0, 200, 2000};
    uint32_t seed = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : (uint32_t)time(NULL) | 1;

    stress_start();
    printf("seed %u\n", seed);
    fflush(stdout);
    for (uint32_t n = stress_count(8); n > 0; n--)
        for (uint32_t s = 0; s < 4; s++)
            for (uint32_t b = 0; b < 3; b++) {
                struct pool_options o = {.workers = sizes[s], .task_bytes = bytes[b], .eager = (n + s + b) % 5 == 0};
                pin((n + b) % 3 == 0);
                round_of(&o, 20, (n + s) % 2, &seed);
            }
    return EXIT_SUCCESS;
}
