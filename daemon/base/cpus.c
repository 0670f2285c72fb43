/* SPDX-License-Identifier: Apache-2.0
 *
 * cpus.c: how many CPUs this process may use, by affinity and by cgroup quota (version 2, and version 1 if still
 * mounted).
 * Owns nothing; reads files once a call. [any]
 * Keeps: an answer of at least 1, whatever the files say. What is missing or malformed limits nothing. What cannot be
 * read is reported.
 * Does not follow changes: it is called again when the configuration is read again. */
#include "base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define CPUS_MAX 65536u

static void file_closep(FILE **f)
{
    if (*f)
        fclose(*f);
}

/* Returns 0 where the error says that there is no such file, else its negative. */
static int failure(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ENODEV ? 0 : -error;
}

unsigned cpus_affinity(void)
{
    __cpu_mask set[CPUS_MAX / __NCPUBITS] = {0}; /* larger than the kernel's own, which refuses a smaller one */

    (void)sched_getaffinity(0, sizeof(set), (cpu_set_t *)set);
    return (unsigned)MAX(CPU_COUNT_S(sizeof(set), (cpu_set_t *)set), 1);
}

/* Reads up to n numbers from a file of one line; "max" or "-1" as the first means none. How many there are, or a
 * negative errno. */
static int read_numbers(const char *dir, const char *file, long long *ret, unsigned n)
{
    char path[PATH_MAX], line[128];

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
        return 0;
    _cleanup_(file_closep) FILE *f = fopen(path, "re");
    if (!f)
        return failure(errno);
    if (!fgets(line, sizeof(line), f))
        return ferror(f) ? failure(errno) : 0;
    return MAX(sscanf(line, n == 2 ? "%lld %lld" : "%lld", ret, ret + 1), 0);
}

static unsigned tighter(unsigned limit, long long quota, long long period)
{
    if (quota <= 0 || period <= 0 || quota > (long long)CPUS_MAX * period)
        return limit;
    unsigned cpus = (unsigned)((quota - 1) / period + 1);
    return limit == 0 || cpus < limit ? cpus : limit;
}

/* Makes *limit the tighter one of it and what this cgroup has. 0 or a negative errno. */
static int quota_of(const char *dir, bool v2, unsigned *limit)
{
    long long v[2] = {0};
    int n = v2 ? read_numbers(dir, "cpu.max", v, 2) : read_numbers(dir, "cpu.cfs_quota_us", v, 1);

    if (n == 1 && !v2) {
        int more = read_numbers(dir, "cpu.cfs_period_us", v + 1, 1);
        n = more < 0 ? more : n + more;
    }
    if (n == 2)
        *limit = tighter(*limit, v[0], v[1]);
    return MIN(n, 0);
}

/* Walks from the cgroup to the root of the hierarchy. In a container the path may not be visible: what does not exist
 * is passed over, and the root is always looked at. The first error is told, and the others are read all the same. */
static unsigned quota_of_path(const char *root, char *path, bool v2, unsigned limit, int *error)
{
    for (;;) {
        char dir[PATH_MAX];

        if ((size_t)snprintf(dir, sizeof(dir), "%s%s", root, path) < sizeof(dir)) {
            int r = quota_of(dir, v2, &limit);
            *error = *error ? *error : r;
        }
        char *slash = strrchr(path, '/');
        if (!slash)
            return limit;
        *slash = 0;
    }
}

static bool has_cpu_controller(char *controllers)
{
    char *save = NULL;

    for (char *c = strtok_r(controllers, ",", &save); c; c = strtok_r(NULL, ",", &save))
        if (strcmp(c, "cpu") == 0)
            return true;
    return false;
}

unsigned cpus_quota(const char *proc_cgroup, const char *mount, int *ret_error)
{
    _cleanup_(file_closep) FILE *f = fopen(proc_cgroup, "re");
    int error = f ? 0 : failure(errno);
    _cleanup_(freep) char *line = NULL;
    size_t room = 0;
    unsigned limit = 0;
    char root[PATH_MAX];

    while (f && getline(&line, &room, f) >= 0) {
        /* hierarchy:controllers:path; version 2 is 0:: */
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        controllers++;
        path[strcspn(path, "\n")] = 0;
        bool v2 = *controllers == 0;
        if (!v2 && !has_cpu_controller(controllers))
            continue;
        if (strstr(path, ".."))
            *path = 0; /* outside our view: only the root of what we see */
        if ((size_t)snprintf(root, sizeof(root), "%s%s", mount, v2 ? "" : "/cpu") < sizeof(root))
            limit = quota_of_path(root, path, v2, limit, &error);
    }
    if (f && !feof(f)) /* no memory for a line, too */
        error = failure(errno);
    *ret_error = error;
    return limit;
}

unsigned cpus_usable(int *ret_error)
{
    unsigned cpus = cpus_affinity(), quota = cpus_quota("/proc/self/cgroup", "/sys/fs/cgroup", ret_error);

    return quota > 0 && quota < cpus ? quota : cpus;
}
