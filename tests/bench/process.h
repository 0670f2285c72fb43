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
#include "tests/support/children.h"

#define SERVERS_MAX  16
#define CHILDREN_MAX 1024u
#define BENCH_DIR    "/var/tmp/wsd-" /* on a disk; /tmp need not be */

/* durable: so many submitters, each with so many in flight, for so long; each form once more for its fsyncs. */
#define DURABLE_SIZE  64u
#define DURABLE_NSEC  2000000000u
#define DURABLE_FORMS 3u
#define DURABLE_MAX   4000000u

static const struct durable_form {
    unsigned submitters, flight;
} durable_forms[DURABLE_FORMS] = {{1, 1}, {64, 1}, {1, 256}};

static pid_t servers[SERVERS_MAX];
static unsigned n_servers;

_Noreturn static inline void give_up(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    for (unsigned i = 0; i < n_servers; i++)
        kill(servers[i], SIGKILL);
    exit(1);
}

/* Like fork(), but the child is killed when its parent ends. */
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

/* true: servers that are started from here on count their syncs in a file; returns its name. false: later servers do
 * not count; returns NULL. */
static const char *fsyncs_file;

static inline const char *count_fsyncs(bool yes)
{
    static char name[] = BENCH_DIR "fsyncs.XXXXXX";
    int fd;

    fsyncs_file = NULL;
    if (!yes)
        return NULL;
    memcpy(name + sizeof(name) - 7, "XXXXXX", 6);
    fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        give_up("no file");
    close(fd);
    return fsyncs_file = name;
}

/* In the child of fork_server(). Counted is by strace, from outside: the process stays the server itself. */
_Noreturn static inline void exec_server(const char *const *argv)
{
    static const char *all[48] = {
        "strace", "-D", "-f", "-c", "--seccomp-bpf", "-e", "trace=fsync,fdatasync,msync,sync_file_range", "-o"};
    unsigned n = 8;

    if (fsyncs_file) {
        for (all[n++] = fsyncs_file; *argv && n < 47; argv++)
            all[n++] = *argv;
        argv = all;
    }
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

/* What was counted there, when the server has ended: strace writes it then. The file goes. */
static inline uint64_t fsyncs_of(const char *file)
{
    char text[256];
    uint64_t sum = 0;
    bool whole = false;

    for (int i = 0; i < 1000 && !whole; i++) {
        FILE *f = fopen(file, "re");

        sum = 0;
        while (f && fgets(text, sizeof(text), f)) { /* %time seconds usecs/call calls [errors] syscall */
            unsigned long long calls;

            whole = strstr(text, "total");
            if (!whole && strstr(text, "sync") && sscanf(text, "%*f %*f %*u %llu", &calls) == 1)
                sum += calls;
        }
        if (f)
            fclose(f);
        if (!whole)
            usleep(10000);
    }
    unlink(file);
    return sum;
}

static inline double quantile(double *values, size_t n, double q)
{
    size_t at = (size_t)((double)n * q);

    qsort(values, n, sizeof(*values), compare_doubles);
    return values[at < n ? at : n - 1];
}

/* Prints the result of one form, when the server has ended: n submits took nsec. For submits one by one, `each` has the
 * n single times. If `fsyncs` is the file of count_fsyncs(), it prints their number instead. */
static inline void say_durable(const struct durable_form *form, const char *more, uint64_t nsec, uint64_t n,
                               double *each, const char *fsyncs)
{
    char params[96];
    int at = snprintf(params, sizeof(params), "submitters=%u,flight=%u%s", form->submitters, form->flight, more);

    if (fsyncs) {
        snprintf(params + at, sizeof(params) - (size_t)at, ",fsyncs=counted");
        say(params, "fsyncs/job", (double)fsyncs_of(fsyncs) / (double)n);
        return;
    }
    say(params, "us/job", (double)nsec / 1e3 / (double)n);
    if (form->submitters * form->flight > 1)
        return;
    snprintf(params + at, sizeof(params) - (size_t)at, ",quantile=p50");
    say(params, "us", quantile(each, n, 0.5));
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

static inline void kill_servers(void)
{
    for (unsigned i = 0; i < n_servers; i++)
        kill(servers[i], SIGKILL);
    end_servers();
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
    pid_t children[CHILDREN_MAX];
    unsigned n = children_of(pid, children, CHILDREN_MAX);
    uint64_t sum = task_sum(pid, field);

    for (unsigned i = 0; i < n; i++)
        sum += tree_sum(children[i], field);
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
