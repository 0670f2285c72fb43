/* SPDX-License-Identifier: Apache-2.0
 *
 * peer-omp.c: OpenMP tasks of gcc's libgomp. It has no pool that takes work from outside. */
#include <omp.h>

#include "bench.h"

static uint64_t fib(int n)
{
    uint64_t a, b;

    if (n < 2)
        return (uint64_t)n;
#pragma omp task shared(a)
    a = fib(n - 1);
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(int argc, char **argv)
{
    char params[64];
    double best = 1e18;

    if (argc < 3)
        return 64;
    omp_set_num_threads(atoi(argv[2]));
    if (!strcmp(argv[1], "fib")) {
        for (int i = 0; i < 2; i++) {
            uint64_t begin = now_nsec(), sum = 0;
#pragma omp parallel
#pragma omp single
            sum = fib(FIB_N_SLOW);
            double t = (double)(now_nsec() - begin);
            best = t < best && sum ? t : best;
        }
        snprintf(params, sizeof(params), "n=26,workers=%s", argv[2]);
        say(params, "ns/call", best / (double)fib_calls(FIB_N_SLOW));
    } else if (!strcmp(argv[1], "loop")) {
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < 3; i++) {
            uint64_t begin = now_nsec();
            for (int r = 0; r < 100; r++) {
                for (uint32_t k = 0; k < LOOP_SMALL; k++) {
#pragma omp task
                    __asm__ volatile("");
                }
#pragma omp taskwait
            }
            double t = (double)(now_nsec() - begin) / 100 / LOOP_SMALL;
            best = t < best ? t : best;
        }
        snprintf(params, sizeof(params), "n=1000,workers=%s", argv[2]);
        say(params, "ns/task", best);
    }
    return 0;
}
