/* SPDX-License-Identifier: Apache-2.0
 *
 * shared.c: what the jobs and direct calls of an executor share.
 * Owns nothing but the table of plugins' numbers; its parts look after themselves. [each function says where]
 * Keeps: any number is looked up safely.
 * Does not load plugins (main.c), or know jobs. */
#include "executor/shared.h"

void shared_init(struct shared *shared, int control_fd)
{
    shared->control_fd = control_fd;
    inputs_init(&shared->inputs);
    inputs_init(&shared->outputs);
    opens_init(&shared->opens);
    arenas_init(&shared->arenas);
}

void shared_notify(struct shared *shared)
{
    eventcount_notify(&shared->back.up->space, UINT32_MAX, true);
}

void shared_add_plugin(struct shared *shared, uint32_t number, struct host_plugin *p)
{
    /* release: partner is the acquire in shared_function() */
    atomic_store_explicit(&shared->plugins[number], p, memory_order_release);
}

const struct plugin_function *shared_function(struct shared *shared, uint64_t target)
{
    uint32_t number = (uint32_t)(target >> 32), function = (uint32_t)target;
    /* acquire: partner is the release in shared_add_plugin() */
    const struct host_plugin *p =
        number < SHARED_PLUGINS ? atomic_load_explicit(&shared->plugins[number], memory_order_acquire) : NULL;

    return p && function < p->n_functions ? &p->functions[function] : NULL;
}
