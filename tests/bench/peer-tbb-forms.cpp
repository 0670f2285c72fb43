// SPDX-License-Identifier: Apache-2.0
//
// peer-tbb-forms.cpp: what forms.c does, with oneTBB's algorithms. Its sort is not stable.
#include <cstdlib>
#include <functional>
#include <oneapi/tbb.h>

extern "C" {
#include "bench.h"
}

static int workers;
static uint64_t *numbers, *results;

static void fill(uint64_t kind)
{
    for (uint64_t i = 0; i < FORM_LARGE; i++)
        results[i] = kind == 0 ? mix(i + 1) : kind == 1 ? i : FORM_LARGE - i;
}

static void bench(const char *what, const char *unit, double scale, uint64_t kind, const std::function<void()> &f)
{
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, (size_t)workers);
    tbb::task_arena arena(workers);
    uint64_t least = UINT64_MAX;
    char params[64];

    for (int i = 0; i < BEST_OF; i++) {
        fill(kind);
        arena.execute([&] {
            uint64_t begin = now_nsec();
            f();
            uint64_t t = now_nsec() - begin;
            least = t < least ? t : least;
        });
    }
    snprintf(params, sizeof(params), "%s,workers=%d", what, workers);
    say(params, unit, (double)least / scale);
}

using range = tbb::blocked_range<uint64_t>;

static void axpy(const range &r)
{
    for (uint64_t i = r.begin(); i < r.end(); i++)
        results[i] += 3 * numbers[i];
}

static uint64_t items_made, items_sum;

static void pipeline(uint32_t steps)
{
    items_made = 0;
    tbb::parallel_pipeline(
        (size_t)(4 * workers),
        tbb::make_filter<void, uint64_t *>(tbb::filter_mode::serial_in_order,
                                           [](tbb::flow_control &c) -> uint64_t * {
                                               if (items_made < FORM_ITEMS)
                                                   return &numbers[items_made++];
                                               c.stop();
                                               return nullptr;
                                           }) &
            tbb::make_filter<uint64_t *, uint64_t *>(tbb::filter_mode::parallel,
                                                     [=](uint64_t *n) {
                                                         uint64_t x = *n;
                                                         for (uint32_t k = 0; k < steps; k++)
                                                             x = mix(x);
                                                         *n = x;
                                                         return n;
                                                     }) &
            tbb::make_filter<uint64_t *, void>(tbb::filter_mode::serial_in_order,
                                               [](uint64_t *n) { items_sum = mix(items_sum) + *n; }));
}

int main(int argc, char **argv)
{
    static struct {
        alignas(64) uint64_t n;
    } counts[FORM_SMALL];
    static const char *const orders[] = {"random", "sorted", "reverse"};

    if (argc < 3)
        return 64;
    workers = atoi(argv[2]);
    numbers = (uint64_t *)malloc(FORM_LARGE * sizeof(*numbers));
    results = (uint64_t *)malloc(FORM_LARGE * sizeof(*results));
    if (!numbers || !results)
        return 1;
    for (uint64_t i = 0; i < FORM_LARGE; i++)
        numbers[i] = mix(i + 7);
    bench("form=group,n=1000", "ns/child", (double)FORM_SMALL * FORM_ROUNDS / 10, 0, [] {
        for (uint32_t i = 0; i < FORM_ROUNDS / 10; i++) {
            tbb::task_group g;
            for (uint32_t k = 0; k < FORM_SMALL; k++)
                g.run([k] { counts[k].n++; });
            g.wait();
        }
    });
    bench("form=for_each,n=1000", "ns/loop", FORM_ROUNDS, 0, [] {
        for (uint32_t i = 0; i < FORM_ROUNDS; i++)
            tbb::parallel_for(range(0, FORM_SMALL), [](const range &r) { axpy(r); });
    });
    bench("form=for_each,n=4000000", "ns/index", FORM_LARGE, 0, [] { tbb::parallel_for(range(0, FORM_LARGE), [](const range &r) { axpy(r); }); });
    bench("form=for_each,uneven", "ms", 1e6, 0, [] {
        tbb::parallel_for(range(0, FORM_UNEVEN), [](const range &r) {
            for (uint64_t i = r.begin(); i < r.end(); i++) {
                uint64_t x = i;
                for (uint64_t k = 0; k < i / 100; k++)
                    x = mix(x);
                results[i] = x;
            }
        });
    });
    bench("form=reduce,n=4000000", "ns/index", FORM_LARGE, 0, [] {
        results[0] = tbb::parallel_reduce(
            range(0, FORM_LARGE), UINT64_C(0),
            [](const range &r, uint64_t sum) {
                for (uint64_t i = r.begin(); i < r.end(); i++)
                    sum += mix(numbers[i]);
                return sum;
            },
            std::plus<>());
    });
    bench("form=scan,n=4000000", "ns/index", FORM_LARGE, 0, [] {
        tbb::parallel_scan(
            range(0, FORM_LARGE), UINT64_C(0),
            [](const range &r, uint64_t sum, bool final) {
                for (uint64_t i = r.begin(); i < r.end(); i++) {
                    sum += numbers[i];
                    if (final)
                        results[i] = sum;
                }
                return sum;
            },
            std::plus<>());
    });
    for (uint64_t order = 0; order < 3; order++) {
        char what[64];
        snprintf(what, sizeof(what), "form=sort,n=1000000,%s", orders[order]);
        bench(what, "ms", 1e6, order, [] { tbb::parallel_sort(results, results + FORM_SORT); });
    }
    bench("form=pipeline,n=100000,item=2ns", "ns/item", FORM_ITEMS, 0, [] { pipeline(1); });
    bench("form=pipeline,n=100000,item=2us", "ns/item", FORM_ITEMS, 0, [] { pipeline(1000); });
    return 0;
}
