/* SPDX-License-Identifier: Apache-2.0
 *
 * abi.c: a plugin that uses all that the installed headers promise to plugins. Its binaries are kept (README.md), so
 * that an engine that no longer keeps a promise goes red. Prints a line for each part; abi0.expected has all of them. Do not
 * change it once its ABI is final: write another one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wsd/forms.h>
#include <wsd/future.h>
#include <wsd/graph.h>
#include <wsd/plugin.h>
#include <wsd/task.h>

#define FLAT 300000u

/* --- tasks with 0 to 6 arguments, with and without result --- */

struct three {
    uint64_t a, b, c;
};

static uint64_t count; /* by atomic additions; one job at a time */

static void add(uint64_t n)
{
    __atomic_fetch_add(&count, n, __ATOMIC_RELAXED);
}

static uint64_t taken(void)
{
    return __atomic_exchange_n(&count, 0, __ATOMIC_RELAXED);
}

WSD_TASK_0(int, value0)
{
    return 7;
}
WSD_TASK_1(uint8_t, value1, uint8_t, a)
{
    return (uint8_t)(a + 1);
}
WSD_TASK_2(double, value2, double, a, float, b)
{
    return a * 2 + (double)b;
}
WSD_TASK_3(struct three, value3, uint64_t, a, uint32_t, b, uint16_t, c)
{
    return (struct three){a, b, c};
}
WSD_TASK_4(const char *, value4, const char *, text, int, skip, bool, twice, char, none)
{
    (void)none;
    return text + (twice ? 2 * skip : skip);
}
WSD_TASK_5(int64_t, value5, int64_t, a, int64_t, b, int64_t, c, int64_t, d, int64_t, e)
{
    return a - b + c - d + e;
}
WSD_TASK_6(uint64_t, value6, uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d, uint64_t, e, uint64_t, f)
{
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}
WSD_VOID_TASK_0(void0)
{
    add(1);
}
WSD_VOID_TASK_1(void1, uint8_t, a)
{
    add(a);
}
WSD_VOID_TASK_2(void2, double, a, float, b)
{
    add((uint64_t)(a + (double)b));
}
WSD_VOID_TASK_3(void3, struct three, a, uint64_t *, ret, uint16_t, c)
{
    *ret = a.a + a.b + a.c + c;
}
WSD_VOID_TASK_4(void4, int, a, int, b, int, c, int, d)
{
    add((uint64_t)(a * b * c * d));
}
WSD_VOID_TASK_5(void5, char, a, char, b, char, c, char, d, uint64_t, e)
{
    add((uint64_t)(a + b + c + d) + e);
}
WSD_VOID_TASK_6(void6, uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d, uint64_t, e, uint64_t, f)
{
    add(a + b + c + d + e + f);
}

static void values(struct wsd_job *job, struct wsd_worker *self)
{
    WSD_SPAWN(value0);
    WSD_SPAWN(value1, 255);
    WSD_SPAWN(value2, 1.25, 0.5f);
    WSD_SPAWN(value3, UINT64_MAX, 5u, 6);
    WSD_SPAWN(value4, "abcdef", 2, true, 'x');
    WSD_SPAWN(value5, 1, 20, 300, 4000, 50000);
    WSD_SPAWN(value6, 1, 2, 3, 4, 5, 6);
    uint64_t v6 = WSD_SYNC(value6);
    int64_t v5 = WSD_SYNC(value5);
    const char *v4 = WSD_SYNC(value4);
    struct three v3 = WSD_SYNC(value3);
    double v2 = WSD_SYNC(value2);
    uint8_t v1 = WSD_SYNC(value1);
    int v0 = WSD_SYNC(value0);
    wsd_job_print(job, "values %d %u %g %llx %llu %llu %s %lld %llu\n", v0, v1, v2, (unsigned long long)v3.a,
                  (unsigned long long)v3.b, (unsigned long long)v3.c, v4, (long long)v5, (unsigned long long)v6);
}

static void voids(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t three;

    WSD_SPAWN(void0);
    WSD_SPAWN(void1, 2);
    WSD_SPAWN(void2, 3.5, 0.5f);
    WSD_SPAWN(void3, ((struct three){1, 2, 3}), &three, 4);
    WSD_SPAWN(void4, 2, 3, 4, 5);
    WSD_SPAWN(void5, 1, 2, 3, 4, 1000);
    WSD_SPAWN(void6, 1, 2, 3, 4, 5, 6);
    WSD_CALL(void6, 10, 20, 30, 40, 50, 60);
    WSD_SYNC(void6);
    WSD_SYNC(void5);
    WSD_SYNC(void4);
    WSD_SYNC(void3);
    WSD_SYNC(void2);
    WSD_SYNC(void1);
    WSD_SYNC(void0);
    wsd_job_print(job, "voids %llu %llu\n", (unsigned long long)taken(), (unsigned long long)three);
}

/* --- trees; rows that are longer than a task stack --- */

WSD_TASK_DECL_1(uint64_t, odd, uint64_t);
WSD_TASK_1(uint64_t, even, uint64_t, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(odd, n - 1);
    uint64_t b = WSD_CALL(odd, n - 2);
    return WSD_SYNC(odd) + b;
}
WSD_TASK_IMPL_1(uint64_t, odd, uint64_t, n)
{
    if (n < 2)
        return n;
    WSD_SPAWN(even, n - 1);
    uint64_t b = WSD_CALL(even, n - 2);
    return WSD_SYNC(even) + b;
}

WSD_VOID_TASK_DECL_2(leaves, uint32_t, uint64_t);
WSD_VOID_TASK_IMPL_2(leaves, uint32_t, depth, uint64_t, n)
{
    if (depth == 0) {
        add(n);
        return;
    }
    for (int i = 0; i < 3; i++)
        WSD_SPAWN(leaves, depth - 1, n);
    for (int i = 0; i < 3; i++)
        WSD_SYNC(leaves);
}

static void plain(struct wsd_worker *self, void *arg)
{
    uint64_t *n = (uint64_t *)arg;

    if (*n % 64 == 0) {
        uint64_t one = 1;
        wsd_spawn(self, plain, &one);
        wsd_sync(self);
    }
    add(*n);
}

static uint64_t word(struct wsd_worker *self, uint64_t n)
{
    if (n < 2)
        return n;
    self->ops->spawn_word(self, word, n - 1);
    uint64_t b = word(self, n - 2);
    return self->ops->sync_word(self) + b;
}

static void trees(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t fib = WSD_CALL(even, 22), words = word(self, 20);

    WSD_CALL(leaves, 9, 2);
    wsd_job_print(job, "trees %llu %llu %llu\n", (unsigned long long)fib, (unsigned long long)words,
                  (unsigned long long)taken());
}

static void rows(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t a = 0, b, c, *n = (uint64_t *)malloc(FLAT * sizeof(*n));

    for (uint32_t i = 0; i < FLAT; i++)
        WSD_SPAWN(even, i % 4);
    for (uint32_t i = FLAT; i-- > 0;)
        a += WSD_SYNC(even) * (i % 7);
    for (uint32_t i = 0; i < FLAT; i++)
        WSD_SPAWN(leaves, i % 64 == 0, i);
    for (uint32_t i = 0; i < FLAT; i++)
        WSD_SYNC(leaves);
    b = taken();
    for (uint32_t i = 0; n && i < FLAT; i++) {
        n[i] = i;
        wsd_spawn(self, plain, &n[i]);
    }
    for (uint32_t i = 0; n && i < FLAT; i++)
        wsd_sync(self);
    c = taken();
    free(n);
    for (uint32_t i = 0; i < FLAT; i++)
        self->ops->spawn_word(self, word, i % 3);
    for (uint32_t i = FLAT; i-- > 0;)
        add(self->ops->sync_word(self) * (i % 5));
    wsd_job_print(job, "rows %llu %llu %llu %llu\n", (unsigned long long)a, (unsigned long long)b,
                  (unsigned long long)c, (unsigned long long)taken());
}

static void piece(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    (void)self;
    for (uint64_t i = begin; i < end; i++)
        add(i * *(const uint64_t *)arg);
}

static void others(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t three = 3;

    wsd_for(self, 5, 100005, 100, piece, &three);
    wsd_for(self, 0, 1000, 0, piece, &three);
    wsd_own_begin(self);
    WSD_SPAWN(even, 15);
    uint64_t own = WSD_CALL(even, 14);
    own += WSD_SYNC(even);
    wsd_own_end(self);
    WSD_SPAWN(even, 16);
    wsd_blocking_begin(self);
    usleep(1000);
    wsd_blocking_end(self);
    wsd_job_print(job, "others %llu %llu %llu %d\n", (unsigned long long)taken(), (unsigned long long)own,
                  (unsigned long long)WSD_SYNC(even), self->context != NULL);
}

/* --- futures --- */

static struct wsd_future cells[20][4];

static int cell(struct wsd_worker *self, void *arg, void **ret_value)
{
    uintptr_t at = (uintptr_t)arg, row = at / 4, sum = 1;

    for (uintptr_t c = 0; c < 4 && row > 0; c++) {
        void *value;
        if (wsd_future_wait(self, &cells[row - 1][c], &value) != 0)
            return 9;
        sum += (uintptr_t)value % 1000003;
    }
    WSD_SPAWN(even, 8);
    *ret_value = (void *)(sum + WSD_CALL(even, 7) + WSD_SYNC(even));
    return 0;
}

static int fails(struct wsd_worker *self, void *arg, void **ret_value)
{
    (void)self;
    *ret_value = arg;
    return 42;
}

static void futures(struct wsd_job *job, struct wsd_worker *self)
{
    struct wsd_future promise, failure;
    void *value, *kept;

    for (uintptr_t i = 0; i < 80; i++)
        wsd_future_begin(self, &cells[i / 4][i % 4]);
    for (uintptr_t i = 80; i-- > 0;)
        wsd_future_start(self, &cells[i / 4][i % 4], cell, (void *)i);
    int error = wsd_future_wait(self, &cells[19][3], &value);
    for (uintptr_t i = 0; i < 80; i++)
        error |= wsd_future_wait(self, &cells[i / 4][i % 4], NULL);
    wsd_future_begin(self, &promise);
    bool before = wsd_future_done(&promise);
    wsd_future_set(&promise, &promise, 5);
    int set = wsd_future_wait(self, &promise, &kept);
    wsd_future_begin(self, &failure);
    wsd_future_start(self, &failure, fails, job);
    int failed = wsd_future_wait(self, &failure, NULL);
    wsd_job_print(job, "futures %d %llu %d %d %d %d %d\n", error, (unsigned long long)(uintptr_t)value, before, set,
                  kept == &promise, failed, wsd_future_done(&promise));
}

/* --- forms --- */

static int work(struct wsd_worker *self, void *arg)
{
    WSD_SPAWN(even, 10);
    add(WSD_SYNC(even) + (uintptr_t)arg);
    return (uintptr_t)arg == 77 ? 13 : 0;
}

static int each(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    (void)self;
    (void)group;
    (void)arg;
    for (uint64_t i = begin; i < end; i++)
        add(i);
    return 0;
}

static int sum(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *value, void *arg)
{
    (void)self;
    (void)group;
    (void)arg;
    for (uint64_t i = begin; i < end; i++)
        *(uint64_t *)value += i * i;
    return 0;
}

static int combine(struct wsd_worker *self, struct wsd_group *group, void *left, void *right, void *arg)
{
    (void)self;
    (void)group;
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
    return 0;
}

static int plus(void *left, const void *right, void *arg)
{
    (void)arg;
    *(uint64_t *)left += *(const uint64_t *)right;
    return 0;
}

static int compare(const void *a, const void *b, void *arg)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    (void)arg;
    return x < y ? -1 : x > y;
}

static int find(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                uint64_t *ret_index)
{
    (void)self;
    (void)group;
    for (uint64_t i = begin; i < end; i++)
        if (((const uint64_t *)arg)[i] >= 500000) {
            *ret_index = i;
            break;
        }
    return 0;
}

static int make(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    uintptr_t *next = (uintptr_t *)arg;

    (void)self;
    (void)group;
    *item = *next < 1000 ? (void *)++*next : NULL;
    return 0;
}

static int twice(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    (void)self;
    (void)group;
    (void)arg;
    *item = (void *)(2 * (uintptr_t)*item);
    return 0;
}

static int take(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    uint64_t *hash = (uint64_t *)arg;

    (void)self;
    (void)group;
    *hash = *hash * 31 + (uintptr_t)*item;
    return 0;
}

static void forms(struct wsd_job *job, struct wsd_worker *self)
{
    enum { N = 20000 };
    const uint64_t zero = 0;
    const struct wsd_reduction reduction = {
        .size = sizeof(uint64_t), .identity = &zero, .body = sum, .combine = combine};
    uint64_t reduced = 0, found = 0, total = 0, hash = 7, *a = (uint64_t *)malloc(2 * N * sizeof(*a));
    uintptr_t next = 0;
    struct wsd_group group, inner;

    if (!a)
        return;
    wsd_group_begin(self, &group, NULL);
    for (uintptr_t i = 0; i < 70; i++)
        wsd_group_spawn(self, &group, work, (void *)i);
    int whole = wsd_group_end(self, &group);
    uint64_t grouped = taken();
    wsd_group_begin(self, &group, NULL);
    wsd_group_begin(self, &inner, &group);
    wsd_group_spawn(self, &inner, work, (void *)77);
    int broken = wsd_group_end(self, &inner);
    wsd_group_cancel(&group);
    bool cancelled = wsd_group_cancelled(&inner);
    int stopped = wsd_group_end(self, &group);
    taken();
    int r = wsd_for_each(self, NULL, 10, N, 0, each, NULL);
    uint64_t looped = taken();
    r |= wsd_reduce(self, NULL, 0, N, 16, &reduction, &reduced);
    for (uint64_t i = 0; i < N; i++)
        a[i] = a[N + i] = i * 7919 % 1000003;
    const struct wsd_scan_args scan = {
        .in = a, .out = a + N, .count = N, .size = sizeof(*a), .kind = WSD_SCAN_INCLUSIVE, .combine = plus,
        .ret_total = &total};
    r |= wsd_scan(self, NULL, &scan);
    uint64_t scanned = a[N + N / 2];
    r |= wsd_sort(self, NULL, a, N, sizeof(*a), compare, NULL);
    r |= wsd_find_first(self, NULL, 0, N, 0, find, a, &found);
    const struct wsd_stage stages[] = {{.run = make, .arg = &next, .kind = WSD_STAGE_ORDERED},
                                       {.run = twice, .kind = WSD_STAGE_PARALLEL},
                                       {.run = take, .arg = &hash, .kind = WSD_STAGE_ORDERED}};
    r |= wsd_pipeline(self, NULL, stages, 3, 8, NULL, NULL);
    wsd_job_print(job, "groups %d %llu %d %d %d\n", whole, (unsigned long long)grouped, broken, cancelled, stopped);
    wsd_job_print(job, "forms %d %llu %llu %llu %llu %llu %llu %llu\n", r, (unsigned long long)looped,
                  (unsigned long long)reduced, (unsigned long long)scanned, (unsigned long long)total,
                  (unsigned long long)found, (unsigned long long)a[found], (unsigned long long)hash);
    free(a);
}

/* --- graphs --- */

struct turns {
    unsigned long long sum, bytes;
    int left;
};

static int three(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    __atomic_fetch_add(&((struct turns *)arg)->sum, 3, __ATOMIC_RELAXED);
    return wsd_group_cancelled(group);
}

static int again(struct wsd_worker *self, struct wsd_group *group, void *arg)
{
    struct turns *t = arg;

    return --t->left > 0 ? 0 : 1; /* back to the first, or on */
}

static bool enough(struct wsd_worker *self, uint64_t runs, void *arg)
{
    ((struct turns *)arg)->left = 100;
    return runs == 4;
}

static int put(const char *text, size_t size, void *arg)
{
    ((struct turns *)arg)->bytes += size;
    return 0;
}

static void graphs(struct wsd_job *job, struct wsd_worker *self)
{
    struct turns t = {0, 0, 100}, u = {0, 0, 0};
    struct wsd_graph *graph, *inner;
    struct wsd_node *begin, *wide[8], *ask, *end, *whole;
    int r = wsd_graph_new(self, &graph) | wsd_graph_new(self, &inner);

    /* begin -> 8 beside each other -> ask, which goes back or on */
    r |= wsd_graph_add(graph, "begin", three, &t, &begin);
    r |= wsd_graph_add_condition(graph, "ask", again, &t, &ask);
    for (int i = 0; i < 8; i++) {
        r |= wsd_graph_add(graph, "wide", three, &t, &wide[i]);
        r |= wsd_graph_precede(begin, wide[i]) | wsd_graph_precede(wide[i], ask);
    }
    r |= wsd_graph_add(inner, "one", three, &u, &whole);
    r |= wsd_graph_add_graph(graph, "inner", inner, &end);
    r |= wsd_graph_add(graph, "first", three, &t, &whole);
    r |= wsd_graph_precede(whole, begin) | wsd_graph_precede(ask, begin) | wsd_graph_precede(ask, end);
    r |= wsd_graph_run(self, NULL, graph);
    t.left = 10;
    r |= wsd_graph_run_n(self, NULL, graph, 1);
    r |= wsd_graph_run_until(self, NULL, graph, enough, &t);
    wsd_graph_cancel(graph);
    r |= wsd_graph_dump(graph, put, &t);
    wsd_job_print(job, "graphs %d %llu %llu %d\n", r, t.sum, u.sum, t.bytes > 100);
    wsd_graph_free(graph);
    wsd_graph_free(inner);
}

/* --- the job --- */

/* ARGUMENT PATH, with an input: every service of a job. */
static int services(struct wsd_job *job, struct wsd_worker *self)
{
    char text[64] = "";
    size_t size = 0;

    (void)self;
    wsd_job_progress(job, 1, 2);
    wsd_job_log(job, WSD_LOG_INFO, "logged %d", 1);
    wsd_job_status(job, "at %s", "work");
    if (job->argc != 3 || job->argv[3] || !job->input || wsd_job_cancelled(job) || job->size < 40)
        return wsd_job_fail(job, 1, "arguments or input are not what they should be");
    wsd_job_print(job, "%s %s %u\n", job->argv[0], job->argv[1], (unsigned)job->input_size);
    void *room = wsd_job_reserve(job, 9, &size);
    if (!room || size < 9)
        return wsd_job_fail(job, 1, "no room");
    memcpy(room, "reserved\n", 9);
    if (wsd_job_commit(job, 9) != 0 || wsd_job_flush(job) != 0)
        return wsd_job_fail(job, 1, "no commit");
    int64_t n = wsd_job_read(job, text, 5);
    if (n != 5 || wsd_job_write(job, text, 5) != 0 || wsd_job_write(job, "\n", 1) != 0)
        return wsd_job_fail(job, 1, "no input");
    int fd = wsd_job_open(job, job->argv[2]);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    if (n < 0 || wsd_job_write(job, text, (size_t)n) != 0 || !wsd_job_directory(job))
        return wsd_job_fail(job, 1, "no file");
    return wsd_job_fail(job, 5, "failed as it %s", "should");
}

static int stream(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned char data[1000];
    uint64_t bytes = 0;
    int64_t n;

    (void)self;
    while ((n = wsd_job_read(job, data, sizeof(data))) > 0)
        bytes += (uint64_t)n;
    return wsd_job_print(job, "stream %llu %d\n", (unsigned long long)bytes, job->input == NULL) < 0;
}

static int engine(struct wsd_job *job, struct wsd_worker *self)
{
    values(job, self);
    voids(job, self);
    trees(job, self);
    rows(job, self);
    others(job, self);
    futures(job, self);
    forms(job, self);
    graphs(job, self);
    return 0;
}

static int started;

static int init(void)
{
    started = 1;
    return 0;
}

static void fini(void)
{
    started = 0;
}

static const struct wsd_function functions[] = {
    {.name = "engine", .help = "tasks, futures and forms", .flags = WSD_FN_IDEMPOTENT, .run = engine},
    {.name = "services", .help = "ARGUMENT FILE", .flags = 0, .run = services},
    {.name = "stream", .help = "counts its input", .flags = WSD_FN_STREAMING, .run = stream},
};
WSD_PLUGIN(.n_functions = 3, .functions = functions, .name = "abi", .version = "0",
           .help = "holds the engine to its word", .init = init, .fini = fini);
