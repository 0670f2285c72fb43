/* SPDX-License-Identifier: Apache-2.0
 *
 * tasks.h: the task programs as the harness calls them, linked in or from a plugin. Each returns a value to check.
 */
#pragma once

#include <stdint.h>

struct wsd_worker;

struct bench_tasks {
    uint64_t (*fib)(struct wsd_worker *self, int n);
    uint64_t (*fib_plain)(struct wsd_worker *self, int n); /* wsd_spawn() and wsd_sync(), without macros */
    uint64_t (*fib_table)(struct wsd_worker *self, int n); /* self->ops, as another language would */
    uint64_t (*nqueens)(struct wsd_worker *self);
    uint64_t (*nqueens_loops)(struct wsd_worker *self); /* spawns all of a row, then joins all */
    uint64_t (*nqueens_bits)(struct wsd_worker *self);
    uint64_t (*uts)(struct wsd_worker *self, const char *tree);
    uint64_t (*loops[4])(struct wsd_worker *self, uint64_t n, uint64_t rounds); /* 16 bytes of code apart */
    uint64_t (*hidden)(struct wsd_worker *self); /* spawn 1 ms, spawn 50 ms, run 50 ms, sync, sync: in ns */
    /* The same, shorter: from the end of the first task on another worker to the begin of the second, wherever, in ns;
     * HUNGER_NSEC: no other worker came. */
    uint64_t (*hunger)(struct wsd_worker *self);
};

__attribute__((visibility("default"))) extern const struct bench_tasks bench_tasks;
