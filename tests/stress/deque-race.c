/* SPDX-License-Identifier: Apache-2.0
 *
 * deque-race.c: one owner pushes and pops as fast as it can while thieves steal, and revoke where nothing is public.
 * Each item is taken exactly once: poisoned when taken, counted when joined. It shows a missing barrier between the
 * owner's pop and a revoke, and a steal that is not one compare-and-swap. */
#include <pthread.h>
#include <sched.h>

#include "pool-stress.h"
#include "pool/deque.h"

#define BATCH 24

static struct deque d;
static struct wsd_worker owner;
static _Atomic bool stop;
/* Apart, so that no thread needs a locked instruction, which would hide what this program is to find. */
static _Atomic uint32_t taken_by_owner[BATCH], taken_by_thieves[BATCH];
/* Written by all: keeps the owner's stores waiting for the line, so that its pops are invisible for a moment. */
static _Alignas(64) _Atomic uint32_t noise;

static void spawn_slow(struct wsd_worker *self, struct wsd_task *t)
{
    bool published;

    CHECK(deque_pushed_owner(&d, t, &published));
}

static struct wsd_task *sync_slow(struct wsd_worker *self, struct wsd_task *t, const struct wsd_task_type *type)
{
    bool published;

    if (deque_popped_owner(&d, t, wsd_task_at_(t, (ptrdiff_t)type->size), &published))
        return NULL;
    while (__atomic_load_n(&t->word, __ATOMIC_ACQUIRE) != TASK_DONE)
        sched_yield();
    deque_joined_owner(&d, t);
    return t;
}

static const struct wsd_task_ops ops = {.size = sizeof(ops), .spawn = spawn_slow, .sync = sync_slow};

static void take(struct wsd_worker *self, void *arg)
{
    uintptr_t i = (uintptr_t)arg;

    if (self == &owner)
        atomic_store_explicit(&taken_by_owner[i], atomic_load_explicit(&taken_by_owner[i], memory_order_relaxed) + 1,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&taken_by_thieves[i], 1, memory_order_relaxed);
}

static void *thief(void *arg)
{
    struct wsd_worker me = {.size = sizeof(me)};
    struct deque_entry *e;
    bool more;

    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        e = deque_steal_any(&d, &more);
        if (!e) {
            atomic_store_explicit(&noise, 1, memory_order_relaxed);
            if (deque_has_private_any(&d))
                deque_revoke_any(&d);
            continue;
        }
        CHECK(e->context == &ops);
        ((const struct wsd_task_type *)e->task->word)->run(&me, e->task);
        __atomic_store_n(&e->task->word, TASK_DONE, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void run(uint32_t n_thieves, uint64_t usec, bool eager)
{
    pthread_t thread[4];
    uint32_t seed = n_thieves;

    atomic_store(&stop, false);
    owner = (struct wsd_worker){.size = sizeof(owner), .ops = &ops, .context = (void *)(uintptr_t)&ops};
    CHECK(deque_init(&d, &owner, 0, eager) == 0);
    for (uint32_t i = 0; i < n_thieves; i++)
        CHECK(pthread_create(&thread[i], NULL, thief, NULL) == 0);
    for (uint64_t end = clock_monotonic_usec() + usec; clock_monotonic_usec() < end;)
        for (int k = 0; k < 100; k++) {
            uint32_t n = 1 + stress_random(&seed) % BATCH;
            for (uint32_t i = 0; i < n; i++) {
                atomic_store_explicit(&taken_by_owner[i], 0, memory_order_relaxed);
                atomic_store_explicit(&taken_by_thieves[i], 0, memory_order_relaxed);
                wsd_spawn(&owner, take, (void *)(uintptr_t)i);
            }
            for (uint32_t i = n; i-- > 0;) {
                atomic_store_explicit(&noise, 2, memory_order_relaxed);
                wsd_sync(&owner);
            }
            for (uint32_t i = 0; i < n; i++)
                CHECK(atomic_load_explicit(&taken_by_owner[i], memory_order_relaxed) +
                          atomic_load_explicit(&taken_by_thieves[i], memory_order_relaxed) ==
                      1);
            CHECK(owner.top == d.base);
        }
    atomic_store(&stop, true);
    for (uint32_t i = 0; i < n_thieves; i++)
        pthread_join(thread[i], NULL);
    deque_deinit(&d);
}

int main(void)
{
    stress_start();
    bool revoke = deque_revoke_available();
    for (uint32_t n = 1; n <= 3; n++)
        for (int eager = !revoke; eager < 2; eager++)
            run(n, stress_count(10) * 100000, eager);
    return EXIT_SUCCESS;
}
