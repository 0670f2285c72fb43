/* SPDX-License-Identifier: Apache-2.0
 *
 * pin.c: workers on CPUs of their own.
 * Owns nothing. [owner of w], but for pool_worker_cpu() [any]
 * Keeps: a worker that cannot be pinned runs all the same.
 * Does not know the machine: topology.c does. */
#include "pool/pin.h"

#include <pthread.h>

#include "pool/worker.h"

void worker_pin(struct worker *w)
{
    const struct topology *t = w->pool->topology;
    cpu_set_t set;
    uint32_t cpu;

    if (!t)
        return;
    cpu = topology_cpu(t, w->public.index % topology_cpus(t));
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE)
        CPU_SET(cpu, &set);
    if (cpu < CPU_SETSIZE && pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0)
        atomic_store_explicit(&w->cpu, (int)cpu + 1, memory_order_relaxed);
}

int pool_worker_cpu(const struct pool *pool, uint32_t index)
{
    return atomic_load_explicit(&pool->all[index]->cpu, memory_order_relaxed) - 1;
}

bool pool_is_pinned(const struct pool *pool)
{
    return pool->topology != NULL;
}
