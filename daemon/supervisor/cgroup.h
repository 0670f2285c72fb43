/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup.h: a cgroup for each executor, where a part of the hierarchy was delegated to wsd. Version 2 only. Everything
 * here is [loop].
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroups;
struct cgroup;

#define CGROUP_ERROR          256u
#define CGROUP_WEIGHT_DEFAULT 100u
#define CGROUP_WEIGHT_MAX     10000u

struct cgroup_limits {
    uint64_t memory;     /* bytes; 0: without limit */
    uint64_t tasks;      /* 0: without limit */
    uint32_t cpu_weight; /* 0: CGROUP_WEIGHT_DEFAULT */
};

enum cgroup_end {
    CGROUP_END_FINE = 0,
    CGROUP_END_LIMIT,   /* the kernel killed in it: it had reached its memory limit */
    CGROUP_END_MACHINE, /* the kernel killed in it: the machine was out of memory */
};

/* Moves this process into a leaf of its own cgroup, if that was delegated to wsd or `always`, and enables the
 * controllers below it. Returns 0; -EOPNOTSUPP: nothing was delegated; another negative errno with the words. */
int cgroups_new(struct cgroups **ret_cgroups, bool always, char error[static CGROUP_ERROR]);
/* Makes a struct cgroups of a cgroup that wsd-spawn has prepared in that way and handed over. Takes the descriptor in
 * any case. NULL: no memory. */
struct cgroups *cgroups_taken(int fd);
/* Its directory; the descriptor stays the cgroup's. -1: none. */
int cgroups_fd(const struct cgroups *g);
/* The caller makes nothing more in it; it lives until the cgroups in it are gone. NULL is fine. Returns NULL. */
struct cgroups *cgroups_unref(struct cgroups *g);

/* Makes an empty cgroup with these limits. Returns 0 or a negative errno: -ENOSPC where the kernel's limits on cgroups
 * are reached. */
int cgroup_new(struct cgroups *g, uint32_t number, const struct cgroup_limits *limits, struct cgroup **ret_cgroup);
/* Kills what is left in it, and removes it, later if it cannot be removed yet. NULL is fine. Returns NULL. */
struct cgroup *cgroup_free(struct cgroup *c);
int cgroup_enter(struct cgroup *c, pid_t pid); /* pid: a child that was not reaped yet */
/* cgroup.procs, open for writing; the descriptor stays the cgroup's. -1: none. */
int cgroup_procs(const struct cgroup *c);
enum cgroup_end cgroup_end(const struct cgroup *c);

/* Writes into `text` which limit keeps this process from having more tasks, and returns `text`. [any] */
const char *cgroup_tasks_words(char *text, size_t size);
