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
    CGROUP_END_LIMIT,   /* something in it was killed since it had its memory */
    CGROUP_END_MACHINE, /* since the machine had no more */
};

/* Moves this process into a leaf of its own cgroup, where that was delegated to it or `always`, and hands the
 * controllers on. 0;
 * -EOPNOTSUPP: nothing was delegated; another negative errno with the words. */
int cgroups_new(struct cgroups **ret_cgroups, bool always, char error[static CGROUP_ERROR]);
/* One that wsd-spawn has prepared in that way, and handed over; the descriptor is taken in any case. NULL: no
 * memory. */
struct cgroups *cgroups_taken(int fd);
/* Its directory; it stays the cgroup's. -1: none. */
int cgroups_fd(const struct cgroups *g);
/* Nothing more is made in it; what was keeps it until that is gone. NULL is fine; returns NULL. */
struct cgroups *cgroups_unref(struct cgroups *g);

/* A new one, with these limits, and nobody in it. 0 or a negative errno: -ENOSPC where the kernel's limits on cgroups
 * are reached. */
int cgroup_new(struct cgroups *g, uint32_t number, const struct cgroup_limits *limits, struct cgroup **ret_cgroup);
/* Ends what is left in it, and removes it; where that cannot be yet, later. NULL is fine; returns NULL. */
struct cgroup *cgroup_free(struct cgroup *c);
int cgroup_enter(struct cgroup *c, pid_t pid); /* a child that was not reaped */
/* cgroup.procs, open for writing; it stays the cgroup's. -1: none. */
int cgroup_procs(const struct cgroup *c);
enum cgroup_end cgroup_end(const struct cgroup *c);

/* Which limit keeps this process from having more tasks, in words, into `text`, which is returned. [any] */
const char *cgroup_tasks_words(char *text, size_t size);
