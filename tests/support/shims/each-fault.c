/* SPDX-License-Identifier: Apache-2.0
 *
 * each-fault.c: runs a command once for each call of a kind that it makes, with that call failing. Then it runs the
 * command once more for each, with all calls from there on failing.
 * Usage:
 *     [FAULTS=KIND[,KIND...]] each-fault [--runs N] [--may-crash] [--exit N] [--words] FAULTS.SO COMMAND [ARG...]
 * FAULTS.SO is faults.c, which has the kinds; the default is memory.
 * Each run has to end as the undisturbed one does (exit 0 and the same bytes on stdout), or with another status and
 * words on stderr. It is a failure if a run ends with 0 and less output, without words, by a signal, or not within
 * LIMIT_SEC (times TIME_SCALE). Each failure is printed, and the exit status is 1.
 * With --runs there are at most N runs of each sort. Where there are more calls, only each K-th one fails.
 * With --may-crash a signal is only counted.
 * With --exit the undisturbed run ends with N instead of 0, and no run may end with 0 then.
 * With --words a run that ends with 0 also has to say the same on stderr. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_SEC 20

struct counts { /* of faults.c */
    char on;
    char unused[7];
    _Atomic uint64_t failed, seen;
};

struct run {
    int status; /* of waitpid() */
    bool late;
    int out, err; /* memory files */
    size_t out_size, err_size;
};

static struct counts *counts;
static char counts_path[64];
static int limit_msec = LIMIT_SEC * 1000;

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(2);
}

static int memory_file(void)
{
    int fd = memfd_create("each-fault", MFD_CLOEXEC);

    if (fd < 0)
        die("memfd_create");
    return fd;
}

static size_t size_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (size_t)st.st_size : 0;
}

/* nth: as FAULTS_NTH has it. */
static struct run run(const char *faults, const char *nth, char **argv)
{
    struct run r = {.out = memory_file(), .err = memory_file()};
    pid_t pid;

    counts->failed = counts->seen = 0;
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY);

        setenv("LD_PRELOAD", faults, 1);
        setenv("FAULTS", "memory", 0);
        setenv("FAULTS_FILE", counts_path, 1);
        setenv("FAULTS_NTH", nth, 1);
        if (null < 0 || dup2(null, 0) < 0 || dup2(r.out, 1) < 0 || dup2(r.err, 2) < 0)
            _exit(126);
        execv(argv[0], argv);
        _exit(127);
    }

    struct pollfd end = {.fd = pidfd_open(pid, 0), .events = POLLIN};

    if (end.fd < 0)
        die("pidfd_open");
    r.late = poll(&end, 1, limit_msec) == 0;
    if (r.late)
        kill(pid, SIGKILL);
    while (waitpid(pid, &r.status, 0) < 0)
        if (errno != EINTR)
            die("waitpid");
    close(end.fd);
    r.out_size = size_of(r.out);
    r.err_size = size_of(r.err);
    return r;
}

static void forget(const struct run *r)
{
    close(r->out);
    close(r->err);
}

static bool same_bytes(int a, size_t a_size, int b, size_t b_size)
{
    bool same = a_size == b_size;

    if (same && a_size) {
        void *x = mmap(NULL, a_size, PROT_READ, MAP_SHARED, a, 0);
        void *y = mmap(NULL, b_size, PROT_READ, MAP_SHARED, b, 0);

        if (x == MAP_FAILED || y == MAP_FAILED)
            die("mmap");
        same = memcmp(x, y, a_size) == 0;
        munmap(x, a_size);
        munmap(y, b_size);
    }
    return same;
}

/* NULL, or what is wrong. words: those of a success count. */
static const char *judge(const struct run *r, const struct run *whole, bool words)
{
    if (r->late)
        return "does not end";
    if (WIFSIGNALED(r->status))
        return "is ended by a signal";
    if (WEXITSTATUS(r->status) != 0)
        return r->err_size ? NULL : "fails without a word";
    if (whole->status != 0)
        return "exits 0";
    if (!same_bytes(r->out, r->out_size, whole->out, whole->out_size))
        return "exits 0 with other output";
    if (words && !same_bytes(r->err, r->err_size, whole->err, whole->err_size))
        return "exits 0 with other words";
    return NULL;
}

static void tell(const struct run *r, const char *nth, const char *wrong)
{
    char text[300];
    ssize_t n = pread(r->err, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    printf("FAULTS_NTH=%s: %s (status %#x, %zu bytes): %s\n", nth, wrong, (unsigned)r->status, r->out_size, text);
}

int main(int argc, char **argv)
{
    uint64_t runs = UINT64_MAX, bad = 0, disturbed = 0, crashes = 0;
    bool may_crash = false, words = false;
    int wanted = 0;
    const char *scale = getenv("TIME_SCALE");
    int i = 1, fd = memory_file();

    if (i + 1 < argc && strcmp(argv[i], "--runs") == 0) {
        runs = strtoull(argv[i + 1], NULL, 10);
        i += 2;
    }
    if (i < argc && strcmp(argv[i], "--may-crash") == 0) {
        may_crash = true;
        i++;
    }
    if (i + 1 < argc && strcmp(argv[i], "--exit") == 0) {
        wanted = atoi(argv[i + 1]);
        i += 2;
    }
    if (i < argc && strcmp(argv[i], "--words") == 0) {
        words = true;
        i++;
    }
    if (i + 1 >= argc || !runs) {
        fputs("each-fault: see the top of tests/support/shims/each-fault.c\n", stderr);
        return 2;
    }
    if (scale && atoi(scale) > 1)
        limit_msec *= atoi(scale);
    snprintf(counts_path, sizeof(counts_path), "/proc/%d/fd/%d", (int)getpid(), fd);
    if (ftruncate(fd, sizeof(*counts)) < 0)
        die("ftruncate");
    counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        die("mmap");
    counts->on = '1';

    const char *faults = argv[i];
    char **command = argv + i + 1;
    struct run whole = run(faults, "0", command);
    uint64_t n = counts->seen, step = n / runs + 1;

    if (!WIFEXITED(whole.status) || WEXITSTATUS(whole.status) != wanted || n == 0) {
        tell(&whole, "0", "does not end as it should by itself");
        return 1;
    }
    for (uint64_t at = 1; at <= n; at += step) {
        for (int onwards = 0; onwards < 2; onwards++) {
            char nth[32];

            snprintf(nth, sizeof(nth), "%llu%s", (unsigned long long)at, onwards ? "+" : "");

            struct run r = run(faults, nth, command);
            bool crashed = may_crash && !r.late && WIFSIGNALED(r.status);
            const char *wrong = crashed ? NULL : judge(&r, &whole, words);

            disturbed += counts->failed > 0;
            if (wrong)
                tell(&r, nth, wrong);
            bad += wrong != NULL;
            crashes += crashed;
            forget(&r);
        }
    }
    printf("%llu calls, each %llu-th tried, %llu runs disturbed, %llu crashed, %llu wrong\n", (unsigned long long)n,
           (unsigned long long)step, (unsigned long long)disturbed, (unsigned long long)crashes,
           (unsigned long long)bad);
    return bad || !disturbed;
}
