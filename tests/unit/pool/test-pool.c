/* SPDX-License-Identifier: Apache-2.0
 *
 * test-pool.c: what pool.h promises. */
#include "pool/pool.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "pool/worker.h"
#include "support.h"

static const uint32_t sizes[] = {1, 2, 4, 16};

/* --- roots --- */

#define ITEMS 2000
static struct item {
    struct pool_node node; /* first */
    uint32_t index;
    _Atomic uint32_t runs;
} items[ITEMS];
static _Atomic uint32_t n_run;
static uint32_t order[ITEMS];

static void item_run(struct pool_node *node, struct wsd_worker *self)
{
    struct item *i = (struct item *)(void *)node;

    atomic_fetch_add(&i->runs, 1);
    order[atomic_fetch_add(&n_run, 1)] = i->index;
}

static void items_init(void)
{
    for (uint32_t i = 0; i < ITEMS; i++) {
        items[i] = (struct item){.node = {.run = item_run}, .index = i};
        order[i] = UINT32_MAX;
    }
    n_run = 0;
}

static void check_each_ran_once(void)
{
    ck_assert_uint_eq(n_run, ITEMS);
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_uint_eq(items[i].runs, 1);
}

START_TEST(close_runs_everything_that_was_submitted)
{
    struct pool *pool = new_pool(sizes[_i]);

    items_init();
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_int_eq(pool_submit(pool, &items[i].node), 0);
    pool_close(pool);
    check_each_ran_once();
    pool_free(pool);
}
END_TEST

START_TEST(one_worker_runs_roots_first_in_first_out)
{
    struct pool *pool = new_pool(1);

    items_init();
    for (uint32_t i = 0; i < ITEMS; i++)
        pool_submit(pool, &items[i].node);
    pool_close(pool);
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_uint_eq(order[i], i);
    pool_free(pool);
}
END_TEST

START_TEST(a_closed_pool_refuses)
{
    struct pool *pool = new_pool(2);

    items_init();
    pool_close(pool);
    ck_assert_int_eq(pool_submit(pool, &items[0].node), -ESHUTDOWN);
    ck_assert(!pool_try_run_one(pool));
    pool_close(pool);
    ck_assert_ptr_null(pool_free(pool));
    ck_assert_ptr_null(pool_free(NULL));
}
END_TEST

static void *close_it(void *arg)
{
    pool_close(arg);
    ck_assert_uint_eq(n_run, ITEMS);
    return NULL;
}

START_TEST(close_may_be_called_by_several_threads)
{
    struct pool *pool = new_pool(sizes[_i]);
    pthread_t thread[4];

    items_init();
    for (uint32_t i = 0; i < ITEMS; i++)
        pool_submit(pool, &items[i].node);
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, close_it, pool);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    check_each_ran_once();
    pool_free(pool);
}
END_TEST

/* Each root submits the next, from inside, also when the pool is closing. */
static struct pool *chain_pool;

static void chain_run(struct pool_node *node, struct wsd_worker *self)
{
    struct item *i = (struct item *)(void *)node;
    uint32_t next = i->index + 1;

    item_run(node, self);
    if (next < ITEMS)
        ck_assert_int_eq(pool_submit(chain_pool, &items[next].node), 0);
}

START_TEST(tasks_may_submit_while_the_pool_closes)
{
    chain_pool = new_pool(sizes[_i]);
    items_init();
    for (uint32_t i = 0; i < ITEMS; i++)
        items[i].node.run = chain_run;
    pool_submit(chain_pool, &items[0].node);
    pool_close(chain_pool);
    check_each_ran_once();
    pool_free(chain_pool);
}
END_TEST

START_TEST(bad_options_are_refused)
{
    struct pool *pool = NULL;
    struct pool_options o = {.workers = 0};

    ck_assert_int_eq(pool_new(&pool, &o), -EINVAL);
    o.workers = POOL_WORKERS_MAX + 1;
    ck_assert_int_eq(pool_new(&pool, &o), -EINVAL);
    o.workers = 1;
    o.guests = POOL_GUESTS_MAX + 1;
    ck_assert_int_eq(pool_new(&pool, &o), -EINVAL);
    o.guests = POOL_GUESTS_MAX;
    o.stack_size = 1;
    ck_assert_int_eq(pool_new(&pool, &o), -EINVAL);
    ck_assert_ptr_null(pool);
}
END_TEST

/* --- source --- */

static struct {
    pthread_mutex_t lock;
    uint32_t next, limit;
} feed = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct pool_node *feed_take(void *context, bool *ret_more)
{
    struct pool_node *node = NULL;

    pthread_mutex_lock(&feed.lock);
    if (feed.next < feed.limit)
        node = &items[feed.next++].node;
    *ret_more = feed.next < feed.limit;
    pthread_mutex_unlock(&feed.lock);
    return node;
}

static bool feed_ready(void *context)
{
    pthread_mutex_lock(&feed.lock);
    bool ready = feed.next < feed.limit;
    pthread_mutex_unlock(&feed.lock);
    return ready;
}

START_TEST(a_source_feeds_the_pool)
{
    struct eventcount event;
    struct pool_options o = {.workers = sizes[_i],
                             .event = &event,
                             .event_shared = true,
                             .source = {.take = feed_take, .ready = feed_ready}};
    struct pool *pool;

    items_init();
    eventcount_init(&event);
    ck_assert_int_eq(pool_new(&pool, &o), 0);
    /* one at a time: each wake-up counts; then the rest at once */
    for (uint32_t i = 0; i < ITEMS / 2; i++) {
        pthread_mutex_lock(&feed.lock);
        feed.limit++;
        pthread_mutex_unlock(&feed.lock);
        eventcount_notify(&event, 1, true);
        while (atomic_load(&n_run) < feed.limit)
            sched_yield();
    }
    pthread_mutex_lock(&feed.lock);
    feed.limit = ITEMS;
    pthread_mutex_unlock(&feed.lock);
    pool_close(pool); /* drains the source */
    check_each_ran_once();
    pool_free(pool);
}
END_TEST

/* Between its look for roots and its look at the close, a root is submitted, and the pool closed. */
static _Atomic(struct pool *) closes;
static _Atomic bool looked;

static struct pool_node *take_nothing(void *context, bool *ret_more)
{
    return NULL;
}

static bool ready_at_the_close(void *context)
{
    struct pool *pool = atomic_load(&closes);

    if (pool) {
        atomic_store(&looked, true);
        while (!atomic_load(&pool->closing))
            sched_yield();
    }
    return false;
}

static void do_arm(struct wsd_worker *self, void *arg)
{
    atomic_store(&closes, arg);
}

static void do_ran(struct wsd_worker *self, void *arg)
{
    atomic_store((_Atomic bool *)arg, true);
}

START_TEST(what_is_submitted_right_before_the_close_runs)
{
    struct pool_options o = {.workers = 1, .source = {.take = take_nothing, .ready = ready_at_the_close}};
    static _Atomic bool ran;
    static struct root root;
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    run_on(pool, do_arm, pool);
    while (!atomic_load(&looked))
        sched_yield();
    root_submit(pool, &root, do_ran, (void *)&ran);
    pool_close(pool);
    ck_assert(atomic_load(&ran));
    atomic_store(&closes, NULL);
    pool_free(pool);
}
END_TEST

/* The sum of context switches over all threads but this one, and whether all of them sleep. */
static uint64_t switches(bool *ret_asleep)
{
    DIR *dir = opendir("/proc/self/task");
    uint64_t sum = 0;

    *ret_asleep = true;
    for (struct dirent *e; (e = readdir(dir));) {
        char path[300], line[256];
        unsigned long long n;
        if (e->d_name[0] == '.' || atoi(e->d_name) == gettid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f)) {
            if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1 ||
                sscanf(line, "nonvoluntary_ctxt_switches: %llu", &n) == 1)
                sum += n;
            if (strncmp(line, "State:\t", 7) == 0 && line[7] != 'S')
                *ret_asleep = false;
        }
        if (f)
            fclose(f);
    }
    closedir(dir);
    return sum;
}

/* Two roots; the first one runs until `pair.gate` opens, the second one is what it leaves. */
static struct {
    struct eventcount event;
    struct pool_node nodes[2];
    _Atomic uint32_t next, limit, run, epoch;
    _Atomic bool gate, worth;
} pair;

static bool pair_ready(void *context)
{
    return atomic_load(&pair.next) < atomic_load(&pair.limit);
}

static bool pair_worth(void *context)
{
    return atomic_load(&pair.worth) && pair_ready(NULL);
}

static struct pool_node *pair_take(void *context, bool *ret_more)
{
    uint32_t i = atomic_load(&pair.next);

    while (i < atomic_load(&pair.limit) && !atomic_compare_exchange_strong(&pair.next, &i, i + 1))
        ;
    *ret_more = pair_worth(NULL);
    return i < atomic_load(&pair.limit) ? &pair.nodes[i] : NULL;
}

static void pair_run(struct pool_node *node, struct wsd_worker *self)
{
    if (node == &pair.nodes[0]) {
        atomic_store(&pair.epoch, atomic_load(&pair.event.epoch));
        while (!atomic_load(&pair.gate))
            sched_yield();
    }
    atomic_fetch_add(&pair.run, 1);
}

/* When the first one runs, the worker that took it has decided whether to wake another for the second one. */
START_TEST(no_worker_is_woken_for_what_is_not_worth_it)
{
    struct pool_options o = {.workers = 2,
                             .event = &pair.event,
                             .event_shared = true,
                             .source = {.take = pair_take, .ready = pair_ready, .worth_waking = pair_worth}};
    struct pool *pool;
    bool asleep = false;

    memset(&pair, 0, sizeof(pair));
    eventcount_init(&pair.event);
    pair.nodes[0].run = pair.nodes[1].run = pair_run;
    atomic_store(&pair.worth, _i);
    ck_assert_int_eq(pool_new(&pool, &o), 0);
    /* A worker that has looked, but does not sleep yet, need not be woken. So both must have announced their sleep and
     * have nothing to do. A worker seen asleep before that may wait for something else, and be awake when work comes.
     * */
    while (!asleep) {
        sched_yield();
        if ((atomic_load(&pair.event.waiters) & EVENTCOUNT_WAITERS) == 2 && atomic_load(&pool->busy) == 0)
            switches(&asleep);
    }
    uint32_t epoch = atomic_load(&pair.event.epoch);
    atomic_store(&pair.limit, 2);
    eventcount_notify(&pair.event, 1, true);
    while (atomic_load(&pair.epoch) == 0)
        sched_yield();
    ck_assert_uint_eq(atomic_load(&pair.epoch), epoch + (_i ? 2u : 1u));
    while (_i && atomic_load(&pair.run) == 0) /* and it takes the second one */
        sched_yield();
    ck_assert_int_eq((int)atomic_load(&pair.run), _i);
    atomic_store(&pair.gate, true);
    pool_close(pool);
    ck_assert_uint_eq(atomic_load(&pair.run), 2);
    pool_free(pool);
}
END_TEST

START_TEST(a_source_needs_both_calls)
{
    struct pool_options o = {.workers = 1, .source = {.take = feed_take}};
    struct pool *pool;

    ck_assert_int_eq(pool_new(&pool, &o), -EINVAL);
}
END_TEST

/* --- guests --- */

static _Atomic bool gate;

static void hold(struct wsd_worker *self, void *arg)
{
    atomic_store((_Atomic bool *)arg, true);
    while (!atomic_load(&gate))
        sched_yield();
}

START_TEST(an_outsider_runs_roots_while_the_worker_is_busy)
{
    struct pool *pool = new_pool(1);
    static struct root r;
    static _Atomic bool held;

    items_init();
    ck_assert(!pool_try_run_one(pool));
    root_submit(pool, &r, hold, &held);
    while (!atomic_load(&held))
        sched_yield();
    for (uint32_t i = 0; i < ITEMS; i++)
        pool_submit(pool, &items[i].node);
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert(pool_try_run_one(pool));
    ck_assert(!pool_try_run_one(pool));
    check_each_ran_once();
    for (uint32_t i = 0; i < ITEMS; i++)
        ck_assert_uint_eq(order[i], i);
    atomic_store(&gate, true);
    pool_free(pool);
}
END_TEST

static void do_fib(struct wsd_worker *self, void *arg)
{
    *(long *)arg = WSD_CALL(fib, 20);
}

/* --- batches of others --- */

#define STREAM 256
static struct item stream[STREAM];
static _Atomic bool stream_ends;
static struct pool *stream_pool;

static _Atomic bool unblocked;

static void block(struct wsd_worker *self, void *arg)
{
    atomic_store((_Atomic bool *)arg, true);
    while (!atomic_load(&unblocked))
        sched_yield();
}

/* There is always another one in the injector. */
static void stream_run(struct pool_node *node, struct wsd_worker *self)
{
    if (!atomic_load(&stream_ends))
        pool_submit(stream_pool, node);
}

START_TEST(what_a_worker_took_does_not_wait_for_its_long_root)
{
    struct pool *pool = stream_pool = new_pool(sizes[_i]);
    static struct root first[16], blocks;
    static _Atomic bool held_first[16], held;

    if (sizes[_i] == 1) { /* there is no other worker */
        pool_free(pool);
        return;
    }
    items_init();
    atomic_store(&gate, false);
    atomic_store(&stream_ends, false);
    atomic_store(&unblocked, false);
    for (uint32_t i = 0; i < sizes[_i]; i++) {
        atomic_store(&held_first[i], false);
        root_submit(pool, &first[i], hold, &held_first[i]);
    }
    for (uint32_t i = 0; i < sizes[_i]; i++)
        while (!atomic_load(&held_first[i]))
            sched_yield();
    /* All stand. The one that goes on first takes what blocks it, and many more with it. */
    atomic_store(&held, false);
    root_submit(pool, &blocks, block, &held);
    for (uint32_t i = 0; i < ITEMS; i++)
        pool_submit(pool, &items[i].node);
    for (uint32_t i = 0; i < STREAM; i++) {
        stream[i] = (struct item){.node = {.run = stream_run}};
        pool_submit(pool, &stream[i].node);
    }
    atomic_store(&gate, true);
    while (!atomic_load(&held))
        sched_yield();
    while (atomic_load(&n_run) < ITEMS) /* while one blocks, and the injector is never empty */
        sched_yield();
    atomic_store(&stream_ends, true);
    atomic_store(&unblocked, true);
    pool_close(pool);
    check_each_ran_once();
    pool_free(pool);
}
END_TEST

START_TEST(what_is_submitted_to_the_front_runs_first)
{
    struct pool *pool = new_pool(1);
    static _Atomic bool on_hold;
    struct root r;

    atomic_store(&gate, false);
    items_init();
    root_submit(pool, &r, hold, (void *)(uintptr_t)&on_hold);
    while (!atomic_load(&on_hold))
        sched_yield();
    /* 5 .. 9 as a queue, 4 .. 0 each before all: so 0 .. 9 */
    for (uint32_t i = 5; i < 10; i++)
        ck_assert_int_eq(pool_submit(pool, &items[i].node), 0);
    for (uint32_t i = 5; i-- > 0;)
        ck_assert_int_eq(pool_submit_front(pool, &items[i].node), 0);
    atomic_store(&gate, true);
    pool_close(pool);
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_uint_eq(order[i], i);
    ck_assert_int_eq(pool_submit_front(pool, &items[0].node), -ESHUTDOWN);
    pool_free(pool);
}
END_TEST

/* --- until --- */

struct goal {
    struct eventcount event;
    _Atomic uint32_t left;
};

static bool reached(const void *arg)
{
    return atomic_load(&((const struct goal *)arg)->left) == 0;
}

static void do_step(struct wsd_worker *self, void *arg)
{
    struct goal *g = arg;

    ck_assert_int_eq(WSD_CALL(fib, 10), 55);
    if (atomic_fetch_sub(&g->left, 1) == 1)
        eventcount_notify(&g->event, UINT32_MAX, false);
}

struct waits {
    struct pool *pool;
    struct goal goal;
};

static void do_until(struct wsd_worker *self, void *arg)
{
    struct waits *waits = arg;

    /* Its own children count, too, and they have not been joined. */
    for (int i = 0; i < 10; i++)
        wsd_spawn(self, do_step, &waits->goal);
    pool_help_until(waits->pool, &waits->goal.event, reached, &waits->goal);
    ck_assert(reached(&waits->goal));
    for (int i = 0; i < 10; i++)
        wsd_sync(self);
}

START_TEST(one_helps_until_something_holds)
{
    static struct root steps[90];
    struct waits waits = {.pool = new_pool(sizes[_i])};
    struct root r;

    for (int round = 0; round < 20; round++) {
        eventcount_init(&waits.goal.event);
        atomic_store(&waits.goal.left, 100);
        root_submit(waits.pool, &r, do_until, &waits);
        for (int i = 0; i < 90; i++)
            root_submit(waits.pool, &steps[i], do_step, &waits.goal);
        pool_help_until(waits.pool, &waits.goal.event, reached, &waits.goal);
        ck_assert(reached(&waits.goal));
        for (int i = 0; i < 90; i++)
            root_wait(&steps[i]);
        root_wait(&r);
    }
    pool_free(waits.pool);
}
END_TEST

static struct root roots[64];
static long values[64];

static void *help_out(void *arg)
{
    for (;;) {
        bool all = true;
        for (int i = 0; i < 64; i++)
            all &= atomic_load(&roots[i].done) == 2;
        if (all)
            return NULL;
        if (!pool_try_run_one(arg))
            sched_yield();
    }
}

START_TEST(outsiders_and_workers_fork_and_join_together)
{
    struct pool *pool = new_pool(sizes[_i]);
    pthread_t thread[20]; /* more than there is room for */

    for (int i = 0; i < 64; i++)
        root_submit(pool, &roots[i], do_fib, &values[i]);
    for (int i = 0; i < 20; i++)
        pthread_create(&thread[i], NULL, help_out, pool);
    for (int i = 0; i < 20; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(values[i], 6765);
    pool_free(pool);
}
END_TEST

#define OUTSIDERS 17 /* more than there is room for by itself */

static pthread_barrier_t outsiders;
static uint32_t number_of[OUTSIDERS];

static void meet_outside(struct wsd_worker *self, void *arg)
{
    *(uint32_t *)arg = self->index;
    pthread_barrier_wait(&outsiders);
}

static struct pool *lazy_pool;

static void *run_outside(void *arg)
{
    struct root r = {.node = {.run = root_run}, .fn = meet_outside, .arg = arg};

    ck_assert_int_eq(pool_run(lazy_pool, &r.node), 0);
    return NULL;
}

START_TEST(as_many_outsiders_run_at_once_as_were_asked_for)
{
    struct pool_options o = {.workers = 2, .guests = OUTSIDERS, .lazy = true};
    pthread_t thread[OUTSIDERS];
    uint64_t seen = 0;

    ck_assert_int_eq(pool_new(&lazy_pool, &o), 0);
    pthread_barrier_init(&outsiders, NULL, OUTSIDERS);
    for (int i = 0; i < OUTSIDERS; i++)
        pthread_create(&thread[i], NULL, run_outside, &number_of[i]);
    for (int i = 0; i < OUTSIDERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < OUTSIDERS; i++)
        seen |= UINT64_C(1) << number_of[i];
    ck_assert_int_eq(__builtin_popcountll(seen), OUTSIDERS);
    ck_assert_uint_eq(pool_workers_seen(lazy_pool), OUTSIDERS);
    for (uint32_t i = 0; i < OUTSIDERS; i++) /* and no thread of its own */
        ck_assert_int_eq((int)pool_worker_kind(lazy_pool, i), POOL_GUEST);
    pthread_barrier_destroy(&outsiders);
    pool_free(lazy_pool);
}
END_TEST

static void wait_for_help(struct wsd_worker *self, void *arg)
{
    ck_assert(pool_is_here(arg));
    while (pool_workers_seen(arg) < 3)
        ck_assert_int_eq(WSD_CALL(fib, 10), 55);
}

START_TEST(a_lazy_pool_has_no_thread_before_there_is_work)
{
    struct pool_options o = {.workers = 2, .lazy = true};
    static long value;
    struct pool *pool;
    struct root r;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    ck_assert(!pool_is_here(pool));
    ck_assert_uint_eq(pool_workers(pool), 2);
    ck_assert_uint_eq(pool_workers_seen(pool), 0);
    pool_free(pool); /* which has nothing to wait for */
    ck_assert_int_eq(pool_new(&pool, &o), 0);
    root_submit(pool, &r, do_fib, &value);
    root_wait(&r);
    ck_assert_int_eq(value, 6765);
    pool_free(pool);
    ck_assert_int_eq(pool_new(&pool, &o), 0);
    r = (struct root){.node = {.run = root_run}, .fn = wait_for_help, .arg = pool};
    ck_assert_int_eq(pool_run(pool, &r.node), 0); /* itself, and both workers */
    ck_assert_uint_eq(pool_workers_seen(pool), 3);
    pool_free(pool);
}
END_TEST

/* --- hooks and contexts --- */

static struct {
    _Atomic uint32_t started, stopped, entered, left;
    int context;
} hooks;

static void on_start(struct wsd_worker *self, uint32_t index, void *context)
{
    char name[16], expected[16];

    ck_assert_ptr_eq(context, &hooks);
    ck_assert_uint_eq(self->index, index);
    ck_assert_uint_ge(self->size, sizeof(struct wsd_worker));
    pthread_getname_np(pthread_self(), name, sizeof(name));
    snprintf(expected, sizeof(expected), "wsd-w%u", index);
    ck_assert_str_eq(name, expected);
    atomic_fetch_add(&hooks.started, 1);
}

static void on_stop(struct wsd_worker *self, uint32_t index, void *context)
{
    atomic_fetch_add(&hooks.stopped, 1);
}

static void on_enter(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    ck_assert_ptr_eq(self->context, task_context);
    ck_assert_ptr_nonnull(task_context);
    atomic_fetch_add(&hooks.entered, 1);
}

static void on_leave(struct wsd_worker *self, void *task_context, void *outer, void *context)
{
    ck_assert_ptr_eq(self->context, task_context);
    atomic_fetch_add(&hooks.left, 1);
}

/* Every task of the tree finds the context of its own root, and again after each join. */
WSD_VOID_TASK_2(tree, int, n, void *, context)
{
    ck_assert_ptr_eq(self->context, context);
    if (n == 0)
        return;
    WSD_SPAWN(tree, n - 1, context);
    WSD_CALL(tree, n - 1, context);
    WSD_SYNC(tree);
    ck_assert_ptr_eq(self->context, context);
}

static void do_tree(struct wsd_worker *self, void *arg)
{
    ck_assert_ptr_null(self->context);
    self->context = arg;
    WSD_CALL(tree, SLOW ? 9 : 12, arg);
    ck_assert_ptr_eq(self->context, arg);
}

START_TEST(stolen_children_inherit_the_context_of_their_root)
{
    struct pool_options o = {.workers = sizes[_i],
                             .worker_start = on_start,
                             .worker_stop = on_stop,
                             .context = &hooks,
                             .task_enter = on_enter,
                             .task_leave = on_leave};
    struct pool_counters c;
    struct pool *pool;
    uint64_t stolen = 0;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    for (int i = 0; i < 64; i++)
        root_submit(pool, &roots[i], do_tree, &values[i]);
    pool_close(pool);
    const uint32_t n = pool_workers_seen(pool); /* a spare one where a join slept for long */
    for (uint32_t i = 0; i < n; i++) {
        pool_worker_counters(pool, i, &c);
        stolen += c.stolen;
    }
    ck_assert_uint_ge(n, o.workers);
    ck_assert_uint_eq(hooks.started, n);
    ck_assert_uint_eq(hooks.stopped, n);
    ck_assert_uint_eq(hooks.entered, stolen);
    ck_assert_uint_eq(hooks.left, stolen);
    pool_free(pool);
}
END_TEST

/* --- CPU time, as others see it --- */

static void burn(struct wsd_worker *self, void *arg)
{
    for (uint64_t end = clock_thread_usec() + 20000; clock_thread_usec() < end;)
        ;
    *(uint32_t *)arg = self->index;
}

START_TEST(cpu_time_of_a_worker_is_seen_from_outside)
{
    struct pool_options o = {.workers = sizes[_i]};
    struct pool_counters c;
    struct pool *pool;
    uint32_t index = UINT32_MAX;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    run_on(pool, burn, &index);
    pool_worker_counters(pool, index, &c);
    ck_assert_uint_ge(c.cpu_usec, 20000);
    pool_close(pool);
    pool_worker_counters(pool, index, &c);
    ck_assert_uint_eq(c.cpu_usec, 0);
    pool_free(pool);
}
END_TEST

/* --- work is never hidden from idle workers --- */

static _Atomic uint32_t inside;

/* Returns once n tasks are inside at the same time. */
static void meet(struct wsd_worker *self, void *arg)
{
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&inside) < *(uint32_t *)arg)
        sched_yield();
}

static void do_meet(struct wsd_worker *self, void *arg)
{
    uint32_t n = *(uint32_t *)arg;

    for (uint32_t i = 0; i + 1 < n; i++)
        wsd_spawn(self, meet, arg);
    meet(self, arg); /* a long leaf: all the children must get out of this worker's private part */
    for (uint32_t i = 0; i + 1 < n; i++)
        wsd_sync(self);
}

START_TEST(all_workers_get_work_though_the_spawner_sits_in_a_leaf)
{
    struct pool_options o = {.workers = sizes[_i / 2], .eager = _i % 2};
    struct pool *pool;
    uint32_t n = o.workers;

    ck_assert_int_eq(pool_new(&pool, &o), 0);
    for (int i = 0; i < 100; i++) {
        atomic_store(&inside, 0);
        run_on(pool, do_meet, &n);
    }
    pool_free(pool);
}
END_TEST

/* The same where the other worker sleeps in a join: its child was stolen, and spawns only then. */
static struct pool *late_pool;
static _Atomic uint32_t late_owner;
static _Atomic bool late_started;

static uint64_t parks_of_late_owner(void)
{
    struct pool_counters c;

    pool_worker_counters(late_pool, atomic_load(&late_owner), &c);
    return c.parks;
}

static void do_late_child(struct wsd_worker *self, void *arg)
{
    uint64_t parks = parks_of_late_owner();

    atomic_store(&late_started, true);
    while (parks_of_late_owner() == parks)
        sched_yield();
    do_meet(self, arg);
}

static void do_late(struct wsd_worker *self, void *arg)
{
    atomic_store(&late_owner, self->index);
    wsd_spawn(self, do_late_child, arg);
    while (!atomic_load(&late_started))
        sched_yield();
    wsd_sync(self);
}

START_TEST(a_waiting_join_is_woken_by_work_that_comes_later)
{
    uint32_t n = 2;

    late_pool = new_pool(2);
    for (int i = 0; i < 200; i++) {
        atomic_store(&inside, 0);
        atomic_store(&late_started, false);
        run_on(late_pool, do_late, &n);
    }
    pool_free(late_pool);
}
END_TEST

START_TEST(roots_reach_all_workers)
{
    struct pool *pool = new_pool(sizes[_i]);
    uint32_t n = sizes[_i];

    struct root *all = calloc(50 * (size_t)n, sizeof(*all));
    for (int k = 0; k < 50; k++) {
        struct root *r = all + (size_t)k * n;
        atomic_store(&inside, 0);
        for (uint32_t i = 0; i < n; i++)
            root_submit(pool, &r[i], meet, &n);
        for (uint32_t i = 0; i < n; i++)
            root_wait(&r[i]);
    }
    pool_free(pool);
    free(all);
}
END_TEST

/* --- what a worker runs next --- */

/* Each leaves its number in a line, which is the order. */
static uint32_t came[64];
static _Atomic uint32_t n_came;
static _Atomic bool held, go_on;
static struct pool *line_pool;
static struct item line_root, line_source;
static _Atomic bool source_full;

static void come(uint32_t number)
{
    came[atomic_fetch_add(&n_came, 1)] = number;
}

static void line_task(struct wsd_worker *self, void *arg)
{
    come((uint32_t)(uintptr_t)arg);
}

static void line_run(struct pool_node *node, struct wsd_worker *self)
{
    come(((struct item *)(void *)node)->index);
}

static struct pool_node *line_take(void *context, bool *ret_more)
{
    *ret_more = false;
    return atomic_exchange(&source_full, false) ? &line_source.node : NULL;
}

static bool line_ready(void *context)
{
    return atomic_load(&source_full);
}

static void line_init(uint32_t workers, bool eager)
{
    struct pool_options o = {.workers = workers, .eager = eager, .source = {.take = line_take, .ready = line_ready}};

    line_root = (struct item){.node = {.run = line_run}, .index = 100};
    line_source = (struct item){.node = {.run = line_run}, .index = 200};
    ck_assert_int_eq(pool_new(&line_pool, &o), 0);
}

static void fill_injector_and_source(void)
{
    atomic_store(&source_full, true);
    ck_assert_int_eq(pool_submit(line_pool, &line_root.node), 0);
}

/* A worker that does nothing until it may go on. */
static void keep_busy(struct wsd_worker *self, void *arg)
{
    atomic_store(&held, true);
    while (!atomic_load(&go_on))
        sched_yield();
}

static void busy_worker(struct root *r)
{
    root_submit(line_pool, r, keep_busy, NULL);
    while (!atomic_load(&held))
        sched_yield();
}

static void do_own(struct wsd_worker *self, void *arg)
{
    fill_injector_and_source();
    for (uintptr_t i = 0; i < 3; i++)
        wsd_spawn(self, line_task, (void *)i);
    for (int i = 0; i < 3; i++)
        wsd_sync(self);
}

START_TEST(own_tasks_come_first_then_injector_then_source)
{
    static const uint32_t expected[] = {2, 1, 0, 100, 200};

    line_init(1, false);
    run_on(line_pool, do_own, NULL);
    pool_free(line_pool);
    ck_assert_uint_eq(n_came, 5);
    ck_assert_mem_eq(came, expected, sizeof(expected));
}
END_TEST

/* All is there before the other worker may look. */
static void do_stolen(struct wsd_worker *self, void *arg)
{
    fill_injector_and_source();
    wsd_spawn(self, line_task, (void *)7);
    atomic_store(&go_on, true);
    while (atomic_load(&n_came) < 3)
        sched_yield();
    wsd_sync(self);
}

START_TEST(a_worker_steals_before_it_takes_roots_and_asks_the_source_last)
{
    static const uint32_t expected[] = {7, 100, 200};
    struct root r;

    line_init(2, _i);
    busy_worker(&r);
    run_on(line_pool, do_stolen, NULL);
    pool_free(line_pool);
    ck_assert_uint_eq(n_came, 3);
    ck_assert_mem_eq(came, expected, sizeof(expected));
}
END_TEST

#define VICTIM_TASKS 10u
static _Atomic uint32_t victims_ready;

static void do_victim(struct wsd_worker *self, void *arg)
{
    uint32_t first = *(uint32_t *)arg;

    /* Spawns only when the other victim runs: else its worker would steal here instead of taking that root. */
    atomic_fetch_add(&victims_ready, 1);
    while (atomic_load(&victims_ready) < 2)
        sched_yield();
    for (uint32_t i = 0; i < VICTIM_TASKS; i++)
        wsd_spawn(self, line_task, (void *)(uintptr_t)(first + i));
    atomic_fetch_add(&victims_ready, 1);
    while (atomic_load(&n_came) < 2 * VICTIM_TASKS)
        sched_yield();
    for (uint32_t i = 0; i < VICTIM_TASKS; i++)
        wsd_sync(self);
}

/* Two have tasks: a thief stays with the one where it found some, and goes to the other when nothing is left. */
START_TEST(a_thief_comes_back_to_its_last_victim)
{
    uint32_t first[2] = {0, VICTIM_TASKS};
    struct root thief, victim[2];

    line_init(3, true);
    busy_worker(&thief);
    for (int i = 0; i < 2; i++)
        root_submit(line_pool, &victim[i], do_victim, &first[i]);
    while (atomic_load(&victims_ready) < 4)
        sched_yield();
    atomic_store(&go_on, true);
    pool_free(line_pool);
    ck_assert_uint_eq(n_came, 2 * VICTIM_TASKS);
    for (uint32_t i = 0; i < 2 * VICTIM_TASKS; i++)
        ck_assert_uint_eq(came[i], (came[0] + i) % (2 * VICTIM_TASKS)); /* and the oldest of each first */
}
END_TEST

/* --- idle --- */

START_TEST(an_idle_pool_does_nothing)
{
    struct pool *pool = new_pool(sizes[_i]);
    struct pool_counters before[16] = {0}, after;
    uint64_t same = 0;
    bool asleep;
    long v;

    for (int i = 0; i < 10; i++)
        run_on(pool, do_fib, &v);
    /* Comes to rest, and stays there: beside other load a thread that sleeps may still have to leave its CPU. */
    for (int quiet = 0; quiet < 20;) {
        uint64_t last = same;
        usleep(20000);
        same = switches(&asleep);
        quiet = asleep && (SANITIZED || same == last) ? quiet + 1 : 0; /* their background thread wakes by itself */
        for (uint32_t i = 0; i < sizes[_i] && quiet <= 1; i++)
            pool_worker_counters(pool, i, &before[i]);
    }
    for (uint32_t i = 0; i < sizes[_i]; i++) {
        pool_worker_counters(pool, i, &after);
        ck_assert_mem_eq(&before[i], &after, sizeof(after));
    }
    pool_free(pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, close_runs_everything_that_was_submitted, 0, 4);
    tcase_add_test(t, one_worker_runs_roots_first_in_first_out);
    tcase_add_test(t, a_closed_pool_refuses);
    tcase_add_loop_test(t, close_may_be_called_by_several_threads, 0, 4);
    tcase_add_loop_test(t, tasks_may_submit_while_the_pool_closes, 0, 4);
    tcase_add_test(t, bad_options_are_refused);
    tcase_add_loop_test(t, a_source_feeds_the_pool, 0, 4);
    tcase_add_test(t, what_is_submitted_right_before_the_close_runs);
    tcase_add_loop_test(t, no_worker_is_woken_for_what_is_not_worth_it, 0, 2);
    tcase_add_test(t, a_source_needs_both_calls);
    tcase_add_test(t, an_outsider_runs_roots_while_the_worker_is_busy);
    tcase_add_loop_test(t, outsiders_and_workers_fork_and_join_together, 0, 4);
    tcase_add_test(t, as_many_outsiders_run_at_once_as_were_asked_for);
    tcase_add_test(t, a_lazy_pool_has_no_thread_before_there_is_work);
    tcase_add_loop_test(t, stolen_children_inherit_the_context_of_their_root, 0, 4);
    tcase_add_loop_test(t, all_workers_get_work_though_the_spawner_sits_in_a_leaf, 0, 8);
    tcase_add_test(t, a_waiting_join_is_woken_by_work_that_comes_later);
    tcase_add_loop_test(t, cpu_time_of_a_worker_is_seen_from_outside, 0, 4);
    tcase_add_loop_test(t, roots_reach_all_workers, 0, 4);
    tcase_add_test(t, own_tasks_come_first_then_injector_then_source);
    tcase_add_loop_test(t, a_worker_steals_before_it_takes_roots_and_asks_the_source_last, 0, 2);
    tcase_add_loop_test(t, a_thief_comes_back_to_its_last_victim, 0, 8);
    tcase_add_loop_test(t, an_idle_pool_does_nothing, 0, 4);
    tcase_add_test(t, what_is_submitted_to_the_front_runs_first);
    tcase_add_loop_test(t, what_a_worker_took_does_not_wait_for_its_long_root, 0, 4);
    tcase_add_loop_test(t, one_helps_until_something_holds, 0, 4);
    suite_add_tcase(s, t);
    return run_suite(s);
}
