/* SPDX-License-Identifier: Apache-2.0
 *
 * process.h: what the benchmarks of services share: servers that end with us, their CPU time and memory, latencies. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define SERVERS_MAX 16

static pid_t servers[SERVERS_MAX];
static unsigned n_servers;

_Noreturn static inline void give_up(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    for (unsigned i = 0; i < n_servers; i++)
        kill(servers[i], SIGKILL);
    exit(1);
}

/* The child of a fork() whose parent wants it to end with him. */
static inline pid_t fork_server(void)
{
    pid_t pid = fork();

    if (pid < 0)
        give_up("fork");
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    else if (n_servers < SERVERS_MAX)
        servers[n_servers++] = pid;
    return pid;
}

static inline void end_servers(void)
{
    while (n_servers > 0) {
        pid_t pid = servers[--n_servers];

        kill(pid, SIGTERM);
        for (int i = 0; waitpid(pid, NULL, WNOHANG) == 0; i++) {
            if (i == 500)
                kill(pid, SIGKILL);
            usleep(10000);
        }
    }
}

/* For us and what we start: a handle of libwsclient has two, so 10,000 of them need more than most may have. */
static inline void raise_descriptors(void)
{
    struct rlimit l = {.rlim_cur = 65536, .rlim_max = 65536};

    if (setrlimit(RLIMIT_NOFILE, &l) < 0 && getrlimit(RLIMIT_NOFILE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

/* All that we start from here on, and we, on one CPU. */
static inline void pin_all(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

/* Sums the number in field `field` (from 1) of /proc/PID/task/TID/schedstat: 1 is ns on a CPU, 3 how often it ran. */
static inline uint64_t task_sum(pid_t pid, int field)
{
    char path[64];
    uint64_t sum = 0;
    struct dirent *e;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    while (d && (e = readdir(d))) {
        unsigned long long v[3] = {0};
        char file[384];

        snprintf(file, sizeof(file), "/proc/%d/task/%s/schedstat", (int)pid, e->d_name);
        FILE *f = *e->d_name == '.' ? NULL : fopen(file, "re");
        if (f && fscanf(f, "%llu %llu %llu", &v[0], &v[1], &v[2]) == 3)
            sum += v[field - 1];
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return sum;
}

/* The same of a process and its children. */
static inline uint64_t tree_sum(pid_t pid, int field)
{
    char path[64];
    uint64_t sum = task_sum(pid, field);
    int child;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%d", &child) == 1)
        sum += tree_sum(child, field);
    if (f)
        fclose(f);
    return sum;
}

static inline uint64_t servers_sum(int field)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < n_servers; i++)
        sum += tree_sum(servers[i], field);
    return sum;
}

/* What the first server has resident, bytes, without what it shares. */
static inline uint64_t server_memory(void)
{
    char path[64];
    unsigned long long kib = 0;
    char line[128];

    snprintf(path, sizeof(path), "/proc/%d/status", (int)servers[0]);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib << 10;
}

static inline double quantile(double *values, size_t n, double q)
{
    size_t at = (size_t)((double)n * q);

    qsort(values, n, sizeof(*values), compare_doubles);
    return values[at < n ? at : n - 1];
}
