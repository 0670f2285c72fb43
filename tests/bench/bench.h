/* SPDX-License-Identifier: Apache-2.0
 *
 * bench.h: what the pool's benchmarks share: time, samples, and the lines that tests/bench/run reads:
 *
 *     PARAMS METRIC VALUE        as in: n=35,workers=2 ns/call 0.701
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline uint64_t now_nsec(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void say(const char *params, const char *metric, double value)
{
    printf("%s %s %.4f\n", params, metric, value);
    fflush(stdout);
}

static inline int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static inline double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return values[n / 2];
}

/* Calls of the naive fib(n), the outermost counted. */
static inline uint64_t fib_calls(int n)
{
    uint64_t a = 1, b = 1;

    for (int i = 2; i <= n; i++) {
        uint64_t c = a + b + 1;
        a = b;
        b = c;
    }
    return b;
}

#define FIB_N       34
#define FIB_N_LONG  42 /* half a second: many time slices, where there are more workers than CPUs */
#define FIB_N_SLOW  26 /* of engines that take more than ten times as long */
#define QUEENS_N    13
#define LOOP_SMALL  1000u
#define LOOP_ROUNDS 3000u
#define LOOP_LARGE  10000000u
#define HUNGER_N    101
#define HUNGER_NSEC 3000000u /* so long the owner is busy */
#define INJECT_N    1000000u
#define WAKE_N      20000u
#define WAKE_GAP_N  300u
#define BEST_OF     5 /* a sample is the best of so many, so that a neighbour's burst does not count */

/* The forms. */
#define FORM_SMALL   1000u
#define FORM_ROUNDS  3000u
#define FORM_LARGE   4000000u
#define FORM_UNEVEN  20000u
#define FORM_SORT    1000000u
#define FORM_RECORDS 200000u
#define FORM_ITEMS   100000u

/* The graphs: so many nodes, or turns of a loop; layers of so many across. */
#define GRAPH_CHAIN  100000u
#define GRAPH_WIDE   1000u
#define GRAPH_TREE   65535u
#define GRAPH_LAYERS 64u
#define GRAPH_ACROSS 64u
#define GRAPH_TURNS  100000u

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdu;
    return x ^ x >> 29;
}
