/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd.c: our engine under the benchmarks, straight on the pool, without a daemon.
 *
 *     bench-wsd BENCH WORKERS [TASKS.SO]      the task programs linked in, or from a plugin */
#include <dlfcn.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/eventcount.h"
#include "bench.h"
#include "pool/pool.h"
#include "tasks.h"
#include "wsd/task.h"

static const struct bench_tasks *tasks = &bench_tasks;
static uint32_t workers;

struct root {
    struct pool_node node; /* first */
    void (*fn)(struct root *root, struct wsd_worker *self);
    int n;
    uint64_t size, rounds, result, nsec;
    const char *tree;
    struct eventcount event;
    _Atomic bool done;
};

/* WSD_BENCH_CPU=1: the CPU time of the root's worker, for one worker on a busy machine. */
static uint64_t clock_nsec(void)
{
    struct timespec t;

    clock_gettime(getenv("WSD_BENCH_CPU") ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void root_run(struct pool_node *node, struct wsd_worker *self)
{
    struct root *r = (struct root *)(void *)node;
    uint64_t begin = clock_nsec();

    r->fn(r, self);
    r->nsec = clock_nsec() - begin;
    atomic_store(&r->done, true);
    eventcount_notify(&r->event, 1, false);
}

static void await(struct root *r)
{
    while (!atomic_load(&r->done)) {
        uint32_t epoch = eventcount_prepare(&r->event);
        if (atomic_load(&r->done))
            eventcount_cancel(&r->event);
        else
            eventcount_wait(&r->event, epoch, UINT64_MAX, false);
    }
}

/* ns of the fastest of some runs. The pool is new for each sample, and warm after the first run. */
static double best(struct root *r, int runs)
{
    struct pool_options o = {.workers = workers};
    struct pool *pool;
    uint64_t least = UINT64_MAX;

    if (pool_new(&pool, &o) != 0)
        exit(1);
    for (int i = 0; i < runs; i++) {
        struct root *once = malloc(sizeof(*once)); /* kept: root_run() notifies after it has set done */
        *once = *r;
        once->node.run = root_run;
        pool_submit(pool, &once->node);
        await(once);
        if (once->nsec < least)
            least = once->nsec;
        r->result = once->result;
    }
    pool_free(pool);
    return (double)least;
}

static void run_fib(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->fib(self, r->n);
}

static void run_plain(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->fib_plain(self, r->n);
}

static void run_table(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->fib_table(self, r->n);
}

static void run_bits(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->nqueens_bits(self);
}

static void run_nqueens(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->nqueens(self);
}

static void run_loops(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->nqueens_loops(self);
}

static void run_uts(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->uts(self, r->tree);
}

static void run_loop(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->loops[r->n](self, r->size, r->rounds);
}

static void run_hidden(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->hidden(self);
}

static void run_hunger(struct root *r, struct wsd_worker *self)
{
    r->result = tasks->hunger(self);
}

static const char *with(const char *what)
{
    static char params[64];

    snprintf(params, sizeof(params), "%s,workers=%u", what, workers);
    return params;
}

static void bench_fib(void)
{
    struct root r = {.fn = run_fib, .n = FIB_N}, p = {.fn = run_plain, .n = FIB_N}, t = {.fn = run_table, .n = FIB_N};
    double n = (double)fib_calls(FIB_N);

    say(with("n=34"), "ns/call", best(&r, BEST_OF) / n);
    if (r.result != 5702887)
        exit(1);
    if (workers > 1) {
        struct root l = {.fn = run_fib, .n = FIB_N_LONG};
        say(with("n=42"), "ns/call", best(&l, 1) / (double)fib_calls(FIB_N_LONG));
        if (l.result != 267914296)
            exit(1);
    }
    say(with("n=34,form=plain"), "ns/call", best(&p, BEST_OF) / n);
    say(with("n=34,form=table"), "ns/call", best(&t, BEST_OF) / n);
}

static void bench_nqueens(void)
{
    struct root r = {.fn = run_nqueens}, b = {.fn = run_bits}, l = {.fn = run_loops};

    say(with("n=13"), "ms", best(&r, BEST_OF) / 1e6);
    say(with("n=13,form=loops"), "ms", best(&l, BEST_OF) / 1e6);
    say(with("n=13,form=bits"), "ms", best(&b, BEST_OF) / 1e6);
    if (r.result != 73712 || l.result != 73712 || b.result != 73712)
        exit(1);
}

static void bench_uts(void)
{
    struct root a = {.fn = run_uts, .tree = "T1"}, b = {.fn = run_uts, .tree = "T3"};
    double t = best(&a, 1);

    say(with("tree=T1"), "ns/node", t / (double)a.result);
    t = best(&b, 1);
    say(with("tree=T3"), "ns/node", t / (double)b.result);
}

/* How long what the owner of a stack hides stays hidden from a worker that has nothing else to do. */
static void bench_hunger(void)
{
    struct pool_options o = {.workers = workers};
    double samples[HUNGER_N];
    struct pool *pool;

    if (pool_new(&pool, &o) != 0)
        exit(1);
    for (int i = 0; i < HUNGER_N; i++) {
        struct root *r = malloc(sizeof(*r)); /* kept, as in best() */
        *r = (struct root){.node = {.run = root_run}, .fn = run_hunger};
        pool_submit(pool, &r->node);
        await(r);
        samples[i] = (double)r->result;
    }
    pool_free(pool);
    say(with("hidden=hunger"), "us", median(samples, HUNGER_N) / 1e3);
}

static void bench_loop(void)
{
    struct root small = {.fn = run_loop, .size = LOOP_SMALL, .rounds = LOOP_ROUNDS};
    struct root large = {.fn = run_loop, .size = LOOP_LARGE, .rounds = 1};
    struct root hidden = {.fn = run_hidden};
    double places[4];

    for (small.n = 0; small.n < 4; small.n++)
        places[small.n] = best(&small, BEST_OF) / LOOP_SMALL / LOOP_ROUNDS;
    median(places, 4); /* sorts */
    say(with("n=1000"), "ns/task", (places[1] + places[2]) / 2);
    say(with("n=10000000,first=1"), "ns/task", best(&large, 1) / LOOP_LARGE);
    say(with("n=10000000"), "ns/task", best(&large, 3) / LOOP_LARGE);
    say(with("hidden=51ms"), "ms", best(&hidden, 3) / 1e6);
    if (workers == 2)
        bench_hunger();
}

static struct {
    _Alignas(64) _Atomic uint64_t n;
} counts[64];

static void count_run(struct pool_node *node, struct wsd_worker *self)
{
    _Atomic uint64_t *n = &counts[self->index].n;

    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_release);
}

static uint64_t counted(void)
{
    uint64_t n = 0;

    for (int i = 0; i < 64; i++)
        n += atomic_load(&counts[i].n);
    return n;
}

static void bench_inject(void)
{
    struct pool_options o = {.workers = workers};
    struct {
        _Alignas(32) struct pool_node node;
    } *nodes = aligned_alloc(64, INJECT_N * sizeof(*nodes));
    struct pool *pool;
    double least = 1e18;

    if (!nodes || pool_new(&pool, &o) != 0)
        exit(1);
    for (int i = 0; i < BEST_OF; i++) {
        uint64_t done = counted() + INJECT_N, begin = now_nsec();
        for (uint32_t k = 0; k < INJECT_N; k++) {
            nodes[k].node.run = count_run;
            pool_submit(pool, &nodes[k].node);
        }
        while (counted() < done)
            usleep(50);
        double t = (double)(now_nsec() - begin);
        least = t < least ? t : least;
    }
    say(with("n=1000000"), "ns/task", least / INJECT_N);
    pool_free(pool);
    free(nodes);
}

static void nothing(struct root *r, struct wsd_worker *self)
{
}

/* run: the waiter may run its own task. Else a worker does. */
static double one(struct pool *pool, struct root *r, bool run)
{
    uint64_t begin = now_nsec();

    *r = (struct root){.node = {.run = root_run}, .fn = nothing};
    if (run)
        pool_run(pool, &r->node);
    else
        pool_submit(pool, &r->node);
    await(r);
    return (double)(now_nsec() - begin);
}

static void bench_wake(void)
{
    static struct root roots[WAKE_N];
    static double all[WAKE_N];
    struct pool_options o = {.workers = workers};
    struct pool *pool;

    if (pool_new(&pool, &o) != 0)
        exit(1);
    for (int run = 0; run < 2; run++) {
        for (uint32_t i = 0; i < WAKE_N; i++)
            all[i] = one(pool, &roots[i], run);
        say(with(run ? "gap=0,form=run" : "gap=0,form=submit"), "ns/wake", median(all, WAKE_N));
        for (uint32_t i = 0; i < WAKE_GAP_N; i++) {
            usleep(1000);
            all[i] = one(pool, &roots[i], run);
        }
        say(with(run ? "gap=1ms,form=run" : "gap=1ms,form=submit"), "ns/wake", median(all, WAKE_GAP_N));
    }
    pool_free(pool);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } benches[] = {{"fib", bench_fib},   {"nqueens", bench_nqueens}, {"uts", bench_uts},
                   {"loop", bench_loop}, {"inject", bench_inject},   {"wake", bench_wake}};

    if (argc < 3)
        return 64;
    workers = (uint32_t)atoi(argv[2]);
    if (argc > 3) {
        void *library = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
        if (!library || !(tasks = dlsym(library, "bench_tasks"))) {
            fprintf(stderr, "bench-wsd: %s\n", dlerror());
            return 66;
        }
    }
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
        if (!strcmp(argv[1], benches[i].name)) {
            benches[i].run();
            return 0;
        }
    return 64;
}
