/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus.h: how many CPUs this process may use. [any]
 */
#pragma once

/* The default number of workers: the CPUs of the affinity mask, or fewer where a cgroup's CPU quota allows less
 * (rounded up). At least 1. */
unsigned cpus_usable(void);

/* CPUs of the affinity mask; at least 1. */
unsigned cpus_affinity(void);

/* The tightest CPU quota on the way from this process's cgroup to the root, in CPUs, rounded up; 0: none.
 * proc_cgroup: /proc/self/cgroup; mount: /sys/fs/cgroup; other paths are for tests. */
unsigned cpus_quota(const char *proc_cgroup, const char *mount);
