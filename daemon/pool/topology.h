/* SPDX-License-Identifier: Apache-2.0
 *
 * topology.h: where the CPUs that this process may use lie: an order for workers, and the distance between two CPUs.
 * Everything here is const once it is made. [any]
 *
 * A place is a position in the order, 0 to topology_cpus() - 1. First comes one hardware thread of each core, with
 * cores that share most next to each other. Then come the second hardware threads, in the same order. Worker i has
 * place i modulo the number of places.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum topology_distance {
    TOPOLOGY_SAME_CPU,
    TOPOLOGY_SAME_CORE,
    TOPOLOGY_SAME_L2,
    TOPOLOGY_SAME_L3,
    TOPOLOGY_SAME_NODE, /* NUMA */
    TOPOLOGY_OTHER_NODE,
    TOPOLOGY_DISTANCES,
};

#define TOPOLOGY_CPUS_MAX 1024u /* more are not used for places */

struct topology;

/* synthetic NULL: this machine, limited to the calling thread's affinity; takes milliseconds. Else a machine in hwloc's
 * words ("node:2 core:4 pu:2"), for tests. 0, -ENOMEM, -ENOTSUP (hwloc cannot tell). */
int topology_new(struct topology **ret_topology, const char *synthetic);
/* NULL is fine; returns NULL. */
struct topology *topology_free(struct topology *t);

uint32_t topology_cpus(const struct topology *t); /* at least 1 */
/* The kernel's number of the CPU at this place. */
uint32_t topology_cpu(const struct topology *t, uint32_t place);
enum topology_distance topology_distance(const struct topology *t, uint32_t place, uint32_t other);

/* The victims of worker `worker` among `n` workers, nearest first. Steps k = 0 to topology_steps(t, n) - 1 give each
 * worker once, the worker itself too. Within a distance they begin at random. A result >= n is no worker: go on with
 * the next step. */
uint32_t topology_steps(const struct topology *t, uint32_t n);
uint32_t topology_victim(const struct topology *t, uint32_t worker, uint32_t n, uint32_t k, uint32_t random);
