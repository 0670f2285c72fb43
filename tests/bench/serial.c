/* SPDX-License-Identifier: Apache-2.0
 *
 * serial.c: the same programs in plain serial C: gcc -O2, calls that are not inlined. The benchmark `wake` is
 * the kernel's minimum, a futex wake-up between two threads on one CPU.
 *
 * Usage: bench-serial BENCH WORKERS. WORKERS is for the harness only. */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "plugins/tree.h"

__attribute__((noinline)) static uint64_t fib(int n)
{
    return n < 2 ? (uint64_t)n : fib(n - 1) + fib(n - 2);
}

__attribute__((noinline)) static uint64_t place(int n, int row, uint32_t columns, uint32_t left, uint32_t right)
{
    uint64_t found = 0;

    if (row == n)
        return 1;
    for (int i = 0; i < n; i++) {
        uint32_t bit = 1u << i;
        if (!((columns | left | right) & bit))
            found += place(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return found;
}

__attribute__((noinline)) static uint64_t place_bit(uint32_t all, uint32_t columns, uint32_t left, uint32_t right)
{
    uint32_t free = all & ~(columns | left | right);
    uint64_t found = 0;

    if (columns == all)
        return 1;
    for (; free; free &= free - 1) {
        uint32_t bit = free & -free;
        found += place_bit(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    return found;
}

__attribute__((noinline)) static uint64_t visit(const struct tree *tree, const struct node *parent, uint32_t index)
{
    struct node node;
    uint64_t nodes = 1;

    if (index == UINT32_MAX)
        node = *parent;
    else
        node_child(&node, parent, index);
    unsigned n = node_children(&node, tree);
    for (unsigned i = 0; i < n; i++)
        nodes += visit(tree, &node, i);
    return nodes;
}

__attribute__((noinline)) static void leaf(uint64_t i)
{
    __asm__ volatile("" : : "r"(i));
}

static _Atomic uint32_t turn;

static void hand_over(uint32_t to, uint32_t back)
{
    atomic_store(&turn, to);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    while (atomic_load(&turn) != back)
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, to, NULL, NULL, 0);
}

static void *partner(void *arg)
{
    while (atomic_load(&turn) != 1)
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    for (;;)
        hand_over(0, 1);
    return NULL;
}

static void wake(void)
{
    static double all[WAKE_N];
    pthread_t thread;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    sched_setaffinity(0, sizeof(one), &one);
    pthread_create(&thread, NULL, partner, NULL);
    for (uint32_t i = 0; i < WAKE_N; i++) {
        uint64_t begin = now_nsec();
        hand_over(1, 0);
        all[i] = (double)(now_nsec() - begin);
    }
    say("gap=0,workers=1", "ns/wake", median(all, WAKE_N));
    for (uint32_t i = 0; i < WAKE_GAP_N; i++) {
        usleep(1000);
        uint64_t begin = now_nsec();
        hand_over(1, 0);
        all[i] = (double)(now_nsec() - begin);
    }
    say("gap=1ms,workers=1", "ns/wake", median(all, WAKE_GAP_N));
}

static const struct tree *tree_named(const char *name)
{
    const struct tree *tree = trees;

    while (strcmp(tree->name, name))
        tree++;
    return tree;
}

static double once(const char *bench, uint64_t *ret_per)
{
    uint64_t begin = now_nsec(), n = 1, sum = 0;

    if (!strcmp(bench, "fib")) {
        sum = fib(FIB_N);
        n = fib_calls(FIB_N);
    } else if (!strncmp(bench, "nqueens", 7)) {
        sum = bench[7] ? place_bit((1u << QUEENS_N) - 1, 0, 0, 0) : place(QUEENS_N, 0, 0, 0, 0);
        n = 1000000;
    } else if (!strncmp(bench, "uts", 3)) {
        const struct tree *tree = tree_named(bench[3] == '3' ? "T3" : "T1");
        struct node root;
        node_root(&root, tree);
        n = sum = visit(tree, &root, UINT32_MAX);
    } else if (!strcmp(bench, "loop")) {
        n = LOOP_LARGE;
        for (uint64_t i = 0; i < n; i++)
            leaf(i);
    } else {
        exit(64);
    }
    double t = (double)(now_nsec() - begin) / (double)n;
    *ret_per = sum;
    return t;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *params, *metric;
        int best_of;
    } benches[] = {{"fib", "n=34,workers=1", "ns/call", BEST_OF},
                   {"nqueens", "n=13,workers=1", "ms", BEST_OF},
                   {"nqueens bits", "n=13,form=bits,workers=1", "ms", BEST_OF},
                   {"uts", "tree=T1,workers=1", "ns/node", 1},
                   {"uts3", "tree=T3,workers=1", "ns/node", 1},
                   {"loop", "n=10000000,workers=1", "ns/task", BEST_OF}};
    uint64_t sum;

    if (argc != 3)
        return 64;
    if (!strcmp(argv[1], "wake"))
        wake();
    for (size_t b = 0; b < sizeof(benches) / sizeof(benches[0]); b++) {
        if (strncmp(argv[1], benches[b].name, strlen(argv[1])))
            continue;
        double best = 1e18;
        for (int i = 0; i < benches[b].best_of; i++) {
            double t = once(benches[b].name, &sum);
            best = t < best ? t : best;
        }
        say(benches[b].params, benches[b].metric, best);
    }
    return 0;
}
