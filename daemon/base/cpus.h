/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus.h: how many CPUs this process may use. [any]
 */
#pragma once

/* The default number of workers: the CPUs of the affinity mask, or fewer if a cgroup's CPU quota allows less (rounded
 * up). At least 1. *ret_error as for cpus_quota(). */
unsigned cpus_usable(int *ret_error);

/* CPUs of the affinity mask; at least 1. */
unsigned cpus_affinity(void);

/* The tightest CPU quota on the way from this process's cgroup to the root, in CPUs, rounded up. It is 0 where there is
 * none. Sets *ret_error to 0, or to a negative errno if one could not be read; the result is then that of the others.
 * Takes /proc/self/cgroup as proc_cgroup and /sys/fs/cgroup as mount; other paths are for tests. */
unsigned cpus_quota(const char *proc_cgroup, const char *mount, int *ret_error);
