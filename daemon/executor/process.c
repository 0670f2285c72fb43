/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c: what an executor does to itself before it runs any foreign code.
 * Owns nothing. [main, before threads]
 * Keeps: descriptors 3 to 6 and 8 are what control.h says. Descriptors 1 and 2 are the pipe that came as 7. Descriptor
 * 0 is open (base/inherit.h). There is no other.
 * Does not sandbox: sandbox.c does, once everything is there that it needs. */
#include "executor/process.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descendants.h"
#include "ring/control.h"

#define FIRST     500    /* added to wsd's oom_score_adj: as if it had half of the machine's memory beside its own */
#define FIRST_MAX 1000   /* of proc(5) */
#define END_MSEC  10000u /* only a process that the kernel does not end, or that is traced, takes longer */

static pid_t parent; /* [const after settling] */

static bool is_memfd(int fd)
{
    return fcntl(fd, F_GET_SEALS) >= 0;
}

static bool is_eventfd(int fd)
{
    static const char is[] = "anon_inode:[eventfd]";
    char name[32], target[64];

    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, target, sizeof(target));
    return n == (ssize_t)strlen(is) && memcmp(target, is, (size_t)n) == 0;
}

static bool is_seqpacket(int fd)
{
    int type = 0;
    socklen_t size = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

int process_descriptors(void)
{
    if (!is_memfd(CONTROL_FD_DOWN) || !is_memfd(CONTROL_FD_UP) || !is_eventfd(CONTROL_FD_BELL) ||
        !is_seqpacket(CONTROL_FD_CONTROL))
        return -EBADF;
    struct stat st;

    for (int fd = CONTROL_FD_DOWN; fd <= CONTROL_FD_CONTROL; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return -errno;
    bool left = fstat(CONTROL_FD_LEFT, &st) == 0 && S_ISREG(st.st_mode);
    if (left && fcntl(CONTROL_FD_LEFT, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    close(CONTROL_FD_WORDS);
    if (close_range(left ? CONTROL_FD_LEFT + 1 : CONTROL_FD_LEFT, ~0u, 0) < 0 && errno != ENOSYS)
        return -errno;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return -errno;
    close(null);
    return 0;
}

/* wsd made the other end of the control socket, so wsd must still be our parent. If wsd-spawn has started us, the death
 * signal was in force before us, and wsd-spawn has checked. */
static bool parent_lives(int control_fd, bool watched)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    return watched || getsockopt(control_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid == getppid();
}

static void settle_signals(void)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
        sigaction(ignored[i], &ignore, NULL);
}

/* relaxed: the first thread does it, and the other one reads nothing of it */
static atomic_flag is_ending = ATOMIC_FLAG_INIT;

static void end_children(void)
{
    const struct rlimit none = {0};

    (void)setrlimit(RLIMIT_NPROC, &none); /* the other threads start no more */
    (void)descendants_end(NULL, END_MSEC);
}

void process_end_children(void)
{
    while (atomic_flag_test_and_set_explicit(&is_ending, memory_order_relaxed))
        pause(); /* the handler is at it, on another thread, and ends the process then */
    end_children();
}

/* SIGCONT is what wakes up a process that is stopped; anybody may send it, and only with wsd gone it says anything. */
static void on_death_of_wsd(int signal)
{
    if (getppid() == parent || atomic_flag_test_and_set_explicit(&is_ending, memory_order_relaxed))
        return;
    end_children();
    kill(getpid(), SIGKILL);
}

/* wsd-spawn ends what is left of its executors by itself. */
static int await_death_of_wsd(void)
{
    struct sigaction action = {.sa_handler = on_death_of_wsd, .sa_flags = SA_RESTART};

    parent = getppid();
    sigfillset(&action.sa_mask);
    return sigaction(SIGCONT, &action, NULL) < 0 || prctl(PR_SET_PDEATHSIG, SIGCONT) < 0 ? -errno : 0;
}

/* Where memory runs out, the kernel is to end executors and what they have started, before wsd. Where that cannot be
 * said, it goes by size alone. */
static void be_first_victim(void)
{
    char text[16] = "";
    _cleanup_(close_fdp) int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);

    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return;
    int wanted = MIN(atoi(text) + FIRST, FIRST_MAX);
    (void)dprintf(fd, "%d", wanted);
}

int process_settle(int control_fd)
{
    int before = 0;

    if (prctl(PR_GET_PDEATHSIG, &before) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return -errno;
    if (before != SIGKILL && await_death_of_wsd() < 0)
        return -errno;
    if (!parent_lives(control_fd, before == SIGKILL))
        return -ESRCH;
    be_first_victim(); /* while the file is its own: that of what may not be looked into is root's */
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    umask(077);
    setlocale(LC_ALL, "C");
    settle_signals();
    return chdir("/") < 0 ? -errno : 0;
}
