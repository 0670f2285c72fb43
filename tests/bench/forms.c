/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.c: the forms of wsd/forms.h beside the plain loops and qsort_r() that do the same.
 *
 *     bench-forms forms WORKERS      0 workers: the serial ones */
#include "base/eventcount.h"
#include "bench.h"
#include "pool/pool.h"
#include "wsd/forms.h"

static uint32_t workers;
static uint64_t *numbers, *results;

/* --- what is done, serially and in pieces --- */

static int axpy(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    for (uint64_t i = begin; i < end; i++)
        results[i] += 3 * numbers[i];
    return 0;
}

static void axpy_for(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    axpy(self, NULL, begin, end, arg);
}

/* Index i costs i / 100 steps: the last pieces are the dearest. */
static int uneven(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    for (uint64_t i = begin; i < end; i++) {
        uint64_t x = i;
        for (uint64_t k = 0; k < i / 100; k++)
            x = mix(x);
        results[i] = x;
    }
    return 0;
}

static void uneven_for(struct wsd_worker *self, uint64_t begin, uint64_t end, void *arg)
{
    uneven(self, NULL, begin, end, arg);
}

static int sum_body(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *value,
                    void *arg)
{
    uint64_t sum = *(uint64_t *)value;

    for (uint64_t i = begin; i < end; i++)
        sum += mix(numbers[i]);
    *(uint64_t *)value = sum;
    return 0;
}

static int add(struct wsd_worker *self, struct wsd_group *group, void *left, void *right, void *arg)
{
    *(uint64_t *)left += *(uint64_t *)right;
    return 0;
}

static int add_element(void *left, const void *right, void *arg)
{
    *(uint64_t *)left += *(const uint64_t *)right;
    return 0;
}

static int compare(const void *a, const void *b, void *arg)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int find(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg,
                uint64_t *ret_index)
{
    for (uint64_t i = begin; i < end; i++)
        if (mix(numbers[i]) == *(uint64_t *)arg) {
            *ret_index = i;
            break;
        }
    return 0;
}

static uint64_t items_made, items_sum;
static uint32_t item_steps;

static int item_make(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    *item = items_made < FORM_ITEMS ? &numbers[items_made++] : NULL;
    return 0;
}

static int item_work(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    uint64_t *n = *item, x = *n;

    for (uint32_t k = 0; k < item_steps; k++)
        x = mix(x);
    *n = x;
    return 0;
}

static int item_use(struct wsd_worker *self, struct wsd_group *group, void **item, void *arg)
{
    items_sum = mix(items_sum) + *(uint64_t *)*item;
    return 0;
}

static int child(struct wsd_worker *self, void *arg)
{
    *(uint64_t *)arg += 1;
    return 0;
}

/* --- each one, on the pool or, without self, serially --- */

static void run_small(struct wsd_worker *self)
{
    for (uint32_t i = 0; i < FORM_ROUNDS; i++)
        if (self)
            wsd_for_each(self, NULL, 0, FORM_SMALL, 0, axpy, NULL);
        else
            axpy(NULL, NULL, 0, FORM_SMALL, NULL);
}

static void run_small_for(struct wsd_worker *self)
{
    for (uint32_t i = 0; i < FORM_ROUNDS; i++)
        if (self)
            wsd_for(self, 0, FORM_SMALL, 0, axpy_for, NULL);
        else
            axpy(NULL, NULL, 0, FORM_SMALL, NULL);
}

static void run_large(struct wsd_worker *self)
{
    if (self)
        wsd_for_each(self, NULL, 0, FORM_LARGE, 0, axpy, NULL);
    else
        axpy(NULL, NULL, 0, FORM_LARGE, NULL);
}

static void run_uneven(struct wsd_worker *self)
{
    if (self)
        wsd_for_each(self, NULL, 0, FORM_UNEVEN, 0, uneven, NULL);
    else
        uneven(NULL, NULL, 0, FORM_UNEVEN, NULL);
}

static void run_uneven_for(struct wsd_worker *self)
{
    if (self)
        wsd_for(self, 0, FORM_UNEVEN, 0, uneven_for, NULL);
    else
        uneven(NULL, NULL, 0, FORM_UNEVEN, NULL);
}

static void run_reduce(struct wsd_worker *self)
{
    static const uint64_t zero;
    struct wsd_reduction r = {.size = 8, .identity = &zero, .body = sum_body, .combine = add};
    uint64_t sum = 0;

    if (self)
        wsd_reduce(self, NULL, 0, FORM_LARGE, 0, &r, &sum);
    else
        sum_body(NULL, NULL, 0, FORM_LARGE, &sum, NULL);
    results[0] = sum;
}

static void run_scan(struct wsd_worker *self)
{
    int (*volatile op)(void *left, const void *right, void *arg) = add_element;
    struct wsd_scan_args s = {.in = numbers, .out = results, .count = FORM_LARGE, .size = 8, .combine = op};
    uint64_t sum = 0;

    if (self) {
        wsd_scan(self, NULL, &s);
        return;
    }
    for (uint64_t i = 0; i < FORM_LARGE; i++) {
        op(&sum, &numbers[i], NULL);
        results[i] = sum;
    }
}

static uint64_t sort_count;
static size_t sort_size;

static void run_sort(struct wsd_worker *self)
{
    if (self)
        wsd_sort(self, NULL, results, sort_count, sort_size, compare, NULL);
    else
        qsort_r(results, sort_count, sort_size, compare, NULL);
}

static void run_find(struct wsd_worker *self)
{
    uint64_t what = mix(numbers[FORM_LARGE / 2]), index = 0;

    if (self)
        wsd_find_first(self, NULL, 0, FORM_LARGE, 0, find, &what, &index);
    else
        find(NULL, NULL, 0, FORM_LARGE, &what, &index);
    if (index != FORM_LARGE / 2)
        exit(1);
}

static void run_pipeline(struct wsd_worker *self)
{
    const struct wsd_stage stages[] = {{.run = item_make, .kind = WSD_STAGE_ORDERED},
                                       {.run = item_work, .kind = WSD_STAGE_PARALLEL},
                                       {.run = item_use, .kind = WSD_STAGE_ORDERED}};
    void *item;

    items_made = 0;
    if (self) {
        wsd_pipeline(self, NULL, stages, 3, 0, NULL, NULL);
        return;
    }
    while (item_make(NULL, NULL, &item, NULL), item) {
        item_work(NULL, NULL, &item, NULL);
        item_use(NULL, NULL, &item, NULL);
    }
}

static void run_group(struct wsd_worker *self)
{
    static struct {
        _Alignas(64) uint64_t n;
    } counts[FORM_SMALL];
    int (*volatile fn)(struct wsd_worker * self, void *arg) = child;

    for (uint32_t i = 0; i < FORM_ROUNDS / 10; i++) {
        struct wsd_group g;
        if (self)
            wsd_group_begin(self, &g, NULL);
        for (uint32_t k = 0; k < FORM_SMALL; k++)
            if (self)
                wsd_group_spawn(self, &g, fn, &counts[k]);
            else
                fn(NULL, &counts[k]);
        if (self)
            wsd_group_end(self, &g);
    }
}

/* --- measuring --- */

struct root {
    struct pool_node node; /* first */
    void (*fn)(struct wsd_worker *self);
    uint64_t nsec;
    struct eventcount event;
    _Atomic bool done;
};

static void root_run(struct pool_node *node, struct wsd_worker *self)
{
    struct root *r = (struct root *)(void *)node;
    uint64_t begin = now_nsec();

    r->fn(self);
    r->nsec = now_nsec() - begin;
    atomic_store(&r->done, true);
    eventcount_notify(&r->event, 1, false);
}

static void fill(uint64_t kind)
{
    for (uint64_t i = 0; i < FORM_LARGE; i++)
        results[i] = kind == 0 ? mix(i + 1) : kind == 1 ? i : FORM_LARGE - i;
}

static void bench(const char *what, const char *unit, double scale, void (*fn)(struct wsd_worker *self), uint64_t kind)
{
    struct pool_options o = {.workers = workers};
    struct pool *pool = NULL;
    uint64_t least = UINT64_MAX;
    char params[64];

    if (workers && pool_new(&pool, &o) != 0)
        exit(1);
    for (int i = 0; i < BEST_OF; i++) {
        struct root *r = calloc(1, sizeof(*r)); /* kept: root_run() notifies after it has set done */
        *r = (struct root){.node.run = root_run, .fn = fn};
        fill(kind);
        if (!workers) {
            root_run(&r->node, NULL);
        } else {
            pool_submit(pool, &r->node);
            while (!atomic_load(&r->done)) {
                uint32_t epoch = eventcount_prepare(&r->event);
                if (atomic_load(&r->done))
                    eventcount_cancel(&r->event);
                else
                    eventcount_wait(&r->event, epoch, UINT64_MAX, false);
            }
        }
        if (r->nsec < least)
            least = r->nsec;
    }
    pool_free(pool);
    snprintf(params, sizeof(params), "%s,workers=%u", what, workers ? workers : 1);
    say(params, unit, (double)least / scale);
}

int main(int argc, char **argv)
{
    static const char *const orders[] = {"random", "sorted", "reverse"};

    if (argc < 3)
        return 64;
    workers = (uint32_t)atoi(argv[2]);
    numbers = malloc(FORM_LARGE * sizeof(*numbers));
    results = malloc(FORM_LARGE * sizeof(*results));
    if (!numbers || !results)
        return 1;
    for (uint64_t i = 0; i < FORM_LARGE; i++)
        numbers[i] = mix(i + 7);
    bench("form=group,n=1000", "ns/child", (double)FORM_SMALL * FORM_ROUNDS / 10, run_group, 0);
    bench("form=for,n=1000", "ns/loop", FORM_ROUNDS, run_small_for, 0);
    bench("form=for_each,n=1000", "ns/loop", FORM_ROUNDS, run_small, 0);
    bench("form=for_each,n=4000000", "ns/index", FORM_LARGE, run_large, 0);
    bench("form=for,uneven", "ms", 1e6, run_uneven_for, 0);
    bench("form=for_each,uneven", "ms", 1e6, run_uneven, 0);
    bench("form=reduce,n=4000000", "ns/index", FORM_LARGE, run_reduce, 0);
    bench("form=find_first,n=4000000", "ms", 1e6, run_find, 0);
    bench("form=scan,n=4000000", "ns/index", FORM_LARGE, run_scan, 0);
    sort_count = FORM_SORT;
    sort_size = 8;
    for (uint64_t order = 0; order < 3; order++) {
        char what[64];
        snprintf(what, sizeof(what), "form=sort,n=1000000,%s", orders[order]);
        bench(what, "ms", 1e6, run_sort, order);
    }
    sort_count = FORM_RECORDS;
    sort_size = 64;
    bench("form=sort,n=200000,size=64", "ms", 1e6, run_sort, 0);
    item_steps = 1;
    bench("form=pipeline,n=100000,item=2ns", "ns/item", FORM_ITEMS, run_pipeline, 0);
    item_steps = 1000;
    bench("form=pipeline,n=100000,item=2us", "ns/item", FORM_ITEMS, run_pipeline, 0);
    return 0;
}
