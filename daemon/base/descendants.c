/* SPDX-License-Identifier: Apache-2.0
 *
 * descendants.c: finds and kills the processes below this one; descendants.h says what it promises.
 * Owns the list of one round.
 * Keeps: killed at once rather than stopped first, so that a round stays short however many there are.
 * Needs a kernel that tells children (CONFIG_PROC_CHILDREN) and a /proc. */
#include "base/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FOUND_MAX   16384u /* processes that are looked at in one round; the rest has its turn when these are gone */
#define AT_ONCE_MAX 64u    /* rounds of killing one behind the other: what forks must not be faster */
#define AGAIN_MSEC  2      /* between later ones: a process takes its time to end */

static pid_t found[FOUND_MAX];
static size_t n_found;
static bool unseen; /* there may be more, for want of a descriptor or memory */

/* 0 where what cannot be opened or read is only gone, or hidden; else the negative error. */
static int failure(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO || error == EINTR ? -error : 0;
}

static void look_failed(void)
{
    unseen |= failure(errno) < 0;
}

static void note_process(pid_t pid, descendants_spared *spared)
{
    int r = spared && pid > 0 ? spared(pid) : 0;

    unseen |= r < 0;
    if (pid > 0 && n_found < FOUND_MAX && r == 0)
        found[n_found++] = pid;
}

/* The children of one thread: numbers with blanks between. */
static void find_of_thread(const char *process, const char *thread, descendants_spared *spared)
{
    char path[64], text[4096];
    pid_t pid = 0;
    ssize_t n = -1;

    snprintf(path, sizeof(path), "/proc/%.15s/task/%.15s/children", process, thread);
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            note_process(pid, spared);
            pid = 0;
        }
    if (n < 0)
        look_failed();
}

static void find_children(pid_t of, descendants_spared *spared)
{
    _Alignas(struct dirent64) char buffer[4096];
    char process[16], path[32];
    ssize_t n = -1;

    snprintf(process, sizeof(process), "%d", (int)of);
    snprintf(path, sizeof(path), "/proc/%.15s/task", process);
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && (n = getdents64(fd, buffer, sizeof(buffer))) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *e = (const void *)(buffer + at);

            if (e->d_name[0] != '.')
                find_of_thread(process, e->d_name, spared);
            at += e->d_reclen;
        }
    if (n < 0)
        look_failed();
}

static void find_all(descendants_spared *spared)
{
    n_found = 0;
    unseen = false;
    find_children(getpid(), spared);
    for (size_t i = 0; i < n_found; i++)
        find_children(found[i], spared);
}

int descendants_kill(descendants_spared *spared)
{
    size_t n_refused = 0;

    find_all(spared);
    for (size_t i = 0; i < n_found; i++)
        n_refused += kill(found[i], SIGKILL) < 0 && errno == EPERM;
    if (unseen)
        return (int)n_found + 1;
    return n_found > 0 && n_refused == n_found ? -EPERM : (int)n_found;
}

void descendants_reap(void)
{
    for (size_t i = 0; i < n_found; i++)
        (void)waitpid(found[i], NULL, WNOHANG);
}

static unsigned msec_since(const struct timespec *begin)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)((now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000);
}

bool descendants_end(descendants_spared *spared, unsigned msec)
{
    struct timespec begin;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned round = 1;; round++) {
        int n = descendants_kill(spared);

        if (n <= 0)
            return n == 0;
        descendants_reap();
        if (msec_since(&begin) >= msec)
            return false;
        if (round >= AT_ONCE_MAX)
            (void)poll(NULL, 0, AGAIN_MSEC);
    }
}

int descendants_is_reaper(pid_t pid)
{
    char path[32], name[sizeof(REAPER_NAME)];

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, name, sizeof(name));
    if (n < 0)
        return failure(errno);
    return n == (ssize_t)sizeof(name) && memcmp(name, REAPER_NAME "\n", sizeof(name)) == 0;
}

int descendants_status_has(pid_t pid, const char *line)
{
    char path[32], text[256];
    int r = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return failure(errno);
    while (r == 0 && fgets(text, sizeof(text), f))
        r = strcmp(text, line) == 0;
    if (ferror(f))
        r = failure(errno);
    fclose(f);
    return r;
}
