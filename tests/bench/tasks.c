/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks.c: the task programs over wsd/task.h: linked into bench-wsd, and built as a plugin. A task each step, no
 * cut-off. */
#include "tasks.h"

#include "bench.h"
#include "plugins/tree.h"
#include "wsd/task.h"

WSD_TASK_1(uint64_t, fib, int, n)
{
    if (n < 2)
        return (uint64_t)n;
    WSD_SPAWN(fib, n - 1);
    uint64_t b = WSD_CALL(fib, n - 2);
    return WSD_SYNC(fib) + b;
}

static uint64_t do_fib(struct wsd_worker *self, int n)
{
    return WSD_CALL(fib, n);
}

struct plain {
    int n;
    uint64_t value;
};

static void plain_fib(struct wsd_worker *self, void *arg)
{
    struct plain *p = arg;

    if (p->n < 2) {
        p->value = (uint64_t)p->n;
        return;
    }
    struct plain a = {.n = p->n - 1}, b = {.n = p->n - 2};
    wsd_spawn(self, plain_fib, &a);
    plain_fib(self, &b);
    wsd_sync(self);
    p->value = a.value + b.value;
}

static uint64_t table_fib(struct wsd_worker *self, uint64_t n)
{
    if (n < 2)
        return n;
    self->ops->spawn_word(self, table_fib, n - 1);
    uint64_t b = table_fib(self, n - 2);
    return self->ops->sync_word(self) + b;
}

static uint64_t do_table(struct wsd_worker *self, int n)
{
    return table_fib(self, (uint64_t)n);
}

static uint64_t do_plain(struct wsd_worker *self, int n)
{
    struct plain p = {.n = n};

    plain_fib(self, &p);
    return p.value;
}

/* The queens of the field's benchmarks: a look at each column. A placement is a task; the columns
 * behind it are looked at meanwhile, so that spawn and sync are two ends of one call, as in fib. The size of the board
 * is a constant, as gcc makes it one in serial C. */
WSD_TASK_DECL_4(uint64_t, place, int, uint32_t, uint32_t, uint32_t);

static uint64_t place_from(struct wsd_worker *self, int row, uint32_t columns, uint32_t left, uint32_t right, int i)
{
    while (i < QUEENS_N && (columns | left | right) & 1u << i)
        i++;
    if (i == QUEENS_N)
        return 0;
    uint32_t bit = 1u << i;
    WSD_SPAWN(place, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    uint64_t found = place_from(self, row, columns, left, right, i + 1);
    return found + WSD_SYNC(place);
}

WSD_TASK_IMPL_4(uint64_t, place, int, row, uint32_t, columns, uint32_t, left, uint32_t, right)
{
    return row == QUEENS_N ? 1 : place_from(self, row, columns, left, right, 0);
}

static uint64_t do_nqueens(struct wsd_worker *self)
{
    return WSD_CALL(place, 0, 0, 0, 0);
}

/* The same with two loops, as it is mostly written: spawn all, then join all. When the second loop ends, no processor
 * can foretell. */
WSD_TASK_4(uint64_t, place_loops, int, row, uint32_t, columns, uint32_t, left, uint32_t, right)
{
    unsigned spawned = 0;
    uint64_t found = 0;

    if (row == QUEENS_N)
        return 1;
    for (int i = 0; i < QUEENS_N; i++) {
        uint32_t bit = 1u << i;
        if ((columns | left | right) & bit)
            continue;
        WSD_SPAWN(place_loops, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1);
        spawned++;
    }
    while (spawned--)
        found += WSD_SYNC(place_loops);
    return found;
}

static uint64_t do_nqueens_loops(struct wsd_worker *self)
{
    return WSD_CALL(place_loops, 0, 0, 0, 0);
}

/* The same tree from bit to bit: a third of the work a task, so a harder test of the engine. */
WSD_TASK_4(uint64_t, place_bit, uint32_t, all, uint32_t, columns, uint32_t, left, uint32_t, right)
{
    uint32_t free = all & ~(columns | left | right);
    unsigned n = 0;
    uint64_t found = 0;

    if (columns == all)
        return 1;
    for (; free; free &= free - 1, n++) {
        uint32_t bit = free & -free;
        WSD_SPAWN(place_bit, all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
    }
    while (n--)
        found += WSD_SYNC(place_bit);
    return found;
}

static uint64_t do_nqueens_bits(struct wsd_worker *self)
{
    return WSD_CALL(place_bit, (1u << QUEENS_N) - 1, 0, 0, 0);
}

WSD_TASK_3(uint64_t, visit, const struct tree *, tree, const struct node *, parent, uint32_t, index)
{
    struct node node;
    uint64_t nodes = 1;

    if (index == UINT32_MAX)
        node = *parent;
    else
        node_child(&node, parent, index);
    unsigned n = node_children(&node, tree);
    for (unsigned i = 0; i < n; i++)
        WSD_SPAWN(visit, tree, &node, i);
    for (unsigned i = 0; i < n; i++)
        nodes += WSD_SYNC(visit);
    return nodes;
}

static uint64_t do_uts(struct wsd_worker *self, const char *name)
{
    const struct tree *tree = trees;
    struct node root;

    while (tree->name && strcmp(tree->name, name))
        tree++;
    node_root(&root, tree);
    return WSD_CALL(visit, tree, &root, UINT32_MAX);
}

WSD_VOID_TASK_1(leaf, uint64_t, i)
{
    __asm__ volatile("" : : "r"(i));
}

/* The offset of the two loops in a cache line changes their time by a fifth, and any change elsewhere moves them. So
 * there is a copy at each multiple of 16 bytes of a 64-byte line. */
#define DO_LOOP(place)                                                                                                 \
    __attribute__((aligned(64))) static uint64_t do_loop_##place(struct wsd_worker *self, uint64_t n, uint64_t rounds) \
    {                                                                                                                  \
        __asm__ volatile(".rept 16 * " #place "\n nop\n .endr");                                                       \
        for (uint64_t r = 0; r < rounds; r++) {                                                                        \
            for (uint64_t i = 0; i < n; i++)                                                                           \
                WSD_SPAWN(leaf, i);                                                                                    \
            for (uint64_t i = n; i > 0; i--)                                                                           \
                WSD_SYNC(leaf);                                                                                        \
        }                                                                                                              \
        return n * rounds;                                                                                             \
    }
DO_LOOP(0)
DO_LOOP(1)
DO_LOOP(2)
DO_LOOP(3)

struct burnt {
    uint64_t begin, end;
    uint32_t worker;
};

WSD_VOID_TASK_2(burn, uint64_t, nsec, struct burnt *, ret)
{
    *ret = (struct burnt){.begin = now_nsec(), .worker = self->index};
    while ((ret->end = now_nsec()) < ret->begin + nsec)
        ;
}

static uint64_t do_hidden(struct wsd_worker *self)
{
    uint64_t begin = now_nsec();
    struct burnt b[3];

    WSD_SPAWN(burn, 1000000, &b[0]);
    WSD_SPAWN(burn, 50000000, &b[1]);
    WSD_CALL(burn, 50000000, &b[2]);
    WSD_SYNC(burn);
    WSD_SYNC(burn);
    return now_nsec() - begin;
}

static uint64_t do_hunger(struct wsd_worker *self)
{
    struct burnt b[3];

    WSD_SPAWN(burn, 500000, &b[0]);
    WSD_SPAWN(burn, 500000, &b[1]);
    WSD_CALL(burn, HUNGER_NSEC, &b[2]);
    WSD_SYNC(burn);
    WSD_SYNC(burn);
    if (b[0].worker == self->index)
        return HUNGER_NSEC;
    return b[1].begin > b[0].end ? b[1].begin - b[0].end : 0;
}

const struct bench_tasks bench_tasks = {
    .fib = do_fib,
    .fib_plain = do_plain,
    .fib_table = do_table,
    .nqueens = do_nqueens,
    .nqueens_loops = do_nqueens_loops,
    .nqueens_bits = do_nqueens_bits,
    .uts = do_uts,
    .loops = {do_loop_0, do_loop_1, do_loop_2, do_loop_3},
    .hidden = do_hidden,
    .hunger = do_hunger,
};
