// SPDX-License-Identifier: Apache-2.0
//
// peer-tbb.cpp: oneTBB. fib by task_group, as its documentation has it; inject and wake by task_arena::enqueue.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <oneapi/tbb.h>
#include <semaphore.h>
#include <unistd.h>

extern "C" {
#include "bench.h"
}

static uint64_t fib(int n)
{
    if (n < 2)
        return (uint64_t)n;
    uint64_t a;
    tbb::task_group g;
    g.run([&] { a = fib(n - 1); });
    uint64_t b = fib(n - 2);
    g.wait();
    return a + b;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 64;
    int workers = atoi(argv[2]);
    char params[64];
    // inside: the caller is one of the workers; outside: all are threads of TBB's
    bool outside = !strcmp(argv[1], "inject") || !strcmp(argv[1], "wake");
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, (size_t)(outside ? workers + 1 : workers));
    tbb::task_arena arena(workers, outside ? 0u : 1u);
    double best = 1e18;

    if (!strcmp(argv[1], "fib")) {
        for (int i = 0; i < 2; i++) {
            uint64_t begin = now_nsec(), sum = 0;
            arena.execute([&] { sum = fib(FIB_N_SLOW); });
            double t = (double)(now_nsec() - begin);
            best = t < best && sum ? t : best;
        }
        snprintf(params, sizeof(params), "n=26,workers=%d", workers);
        say(params, "ns/call", best / (double)fib_calls(FIB_N_SLOW));
    } else if (!strcmp(argv[1], "loop")) {
        arena.execute([&] {
            for (int i = 0; i < 3; i++) {
                uint64_t begin = now_nsec();
                for (int r = 0; r < 200; r++) {
                    tbb::task_group g;
                    for (uint32_t k = 0; k < LOOP_SMALL; k++)
                        g.run([] {});
                    g.wait();
                }
                double t = (double)(now_nsec() - begin) / 200 / LOOP_SMALL;
                best = t < best ? t : best;
            }
        });
        snprintf(params, sizeof(params), "n=1000,workers=%d", workers);
        say(params, "ns/task", best);
    } else if (!strcmp(argv[1], "inject")) {
        for (int i = 0; i < 2; i++) {
            std::atomic<uint32_t> done{0};
            uint64_t begin = now_nsec();
            for (uint32_t k = 0; k < INJECT_N; k++)
                arena.enqueue([&] { done.fetch_add(1, std::memory_order_relaxed); });
            while (done.load() < INJECT_N)
                usleep(50);
            double t = (double)(now_nsec() - begin);
            best = t < best ? t : best;
        }
        snprintf(params, sizeof(params), "n=1000000,workers=%d", workers);
        say(params, "ns/task", best / INJECT_N);
    } else if (!strcmp(argv[1], "wake")) {
        static double all[WAKE_N];
        sem_t sem;
        sem_init(&sem, 0, 0);
        for (int gap = 0; gap < 2; gap++) {
            uint32_t n = gap ? WAKE_GAP_N : WAKE_N / 10;
            for (uint32_t i = 0; i < n; i++) {
                if (gap)
                    usleep(1000);
                uint64_t begin = now_nsec();
                arena.enqueue([&] { sem_post(&sem); });
                sem_wait(&sem);
                all[i] = (double)(now_nsec() - begin);
            }
            snprintf(params, sizeof(params), "gap=%s,workers=%d", gap ? "1ms" : "0", workers);
            say(params, "ns/wake", median(all, n));
        }
    }
    return 0;
}
