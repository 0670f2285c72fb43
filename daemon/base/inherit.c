/* SPDX-License-Identifier: Apache-2.0
 *
 * inherit.c: what a process inherits from its parent: descriptors 0 to 2, signals, limits.
 * Owns nothing: what is set here is the process's. [main, before threads; inherit_check() and inherit_blame(): any]
 * Keeps: a number from 0 to 2 is never given to anything else. The words name a limit as getrlimit(2) does.
 * Does not know what a program needs: its main() says so. Uses nothing but the C library. */
#include "base/inherit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- descriptors ----------------------------------------------------------------------------------------------------
 */

/* Opened the wrong way round, as gnulib's stdopen() does it, so that what is read or written by mistake is an error.
 * Without a /dev, a descriptor of the root directory, which can neither be read nor written. */
static int stand_in(int fd)
{
    static const int modes[] = {[STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_WRONLY};

    if (fcntl(fd, F_GETFD) >= 0)
        return 0;
    int opened = open("/dev/null", modes[fd] | O_NOCTTY);
    if (opened < 0)
        opened = open("/", O_PATH | O_DIRECTORY);
    if (opened < 0)
        return -errno;
    return opened == fd ? 0 : -EBADF; /* the lowest number that is free */
}

/* --- signals --------------------------------------------------------------------------------------------------------
 */

static bool stays_ignored(enum inherit_kind kind, int number)
{
    static const int stay[] = {SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};

    for (size_t i = 0; i < sizeof(stay) / sizeof(*stay) && kind == INHERIT_TOOL; i++)
        if (stay[i] == number)
            return true;
    return false;
}

static void settle_signals(enum inherit_kind kind)
{
    struct sigaction now, plain = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        if (!stays_ignored(kind, s) && sigaction(s, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            sigaction(s, &plain, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* a file that may not grow is an error of its write */
    if (kind == INHERIT_DAEMON)
        sigaction(SIGPIPE, &ignore, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* --- limits ---------------------------------------------------------------------------------------------------------
 */

static const struct limit {
    int resource;
    int error;                     /* the errno of what this limit refuses */
    int by_thread;                 /* and that of pthread_create(), where there is no memory for the stack */
    const char *name, *unit, *set; /* set: with what it is set */
} limits[] = {
    {RLIMIT_STACK, 0, 0, "RLIMIT_STACK", "bytes", "ulimit -s, LimitSTACK="},
    {RLIMIT_NOFILE, EMFILE, 0, "RLIMIT_NOFILE", "descriptors", "ulimit -n, LimitNOFILE="},
    {RLIMIT_FSIZE, EFBIG, 0, "RLIMIT_FSIZE", "bytes", "ulimit -f, LimitFSIZE="},
    {RLIMIT_AS, ENOMEM, EAGAIN, "RLIMIT_AS", "bytes", "ulimit -v, LimitAS="},
    {RLIMIT_DATA, ENOMEM, EAGAIN, "RLIMIT_DATA", "bytes", "ulimit -d, LimitDATA="},
    {RLIMIT_NPROC, EAGAIN, 0, "RLIMIT_NPROC", "threads of this user", "ulimit -u, LimitNPROC="},
    {RLIMIT_CPU, 0, 0, "RLIMIT_CPU", "seconds", "ulimit -t, LimitCPU="},
};

#define N_LIMITS (sizeof(limits) / sizeof(*limits))

static rlim_t soft_limit(int resource)
{
    struct rlimit l;

    return getrlimit((__rlimit_resource_t)resource, &l) < 0 ? RLIM_INFINITY : l.rlim_cur;
}

static rlim_t hard_limit(int resource)
{
    struct rlimit l;

    return getrlimit((__rlimit_resource_t)resource, &l) < 0 ? RLIM_INFINITY : l.rlim_max;
}

/* Not beyond the hard limit; of CPU time a second below it: the signal at the soft one says of what a process dies,
 * SIGKILL does not. */
static void raise_to(int resource, rlim_t wanted)
{
    struct rlimit l;

    if (getrlimit((__rlimit_resource_t)resource, &l) < 0)
        return;
    rlim_t most = resource == RLIMIT_CPU && l.rlim_max != RLIM_INFINITY && l.rlim_max > 0 ? l.rlim_max - 1 : l.rlim_max;
    if (l.rlim_cur >= wanted || l.rlim_cur >= most)
        return;
    l.rlim_cur = wanted < most ? wanted : most;
    (void)setrlimit((__rlimit_resource_t)resource, &l);
}

/* The C library has taken the stack of a new thread from the limit, before main(). */
static void settle_threads(void)
{
    pthread_attr_t attr;
    size_t size = 0;

    if (pthread_getattr_default_np(&attr) != 0)
        return;
    if (pthread_attr_getstacksize(&attr, &size) == 0 && size < INHERIT_STACK &&
        pthread_attr_setstacksize(&attr, INHERIT_STACK) == 0)
        (void)pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
}

static void settle_limits(enum inherit_kind kind)
{
    raise_to(RLIMIT_STACK, INHERIT_STACK);
    for (size_t i = 0; i < N_LIMITS && kind == INHERIT_DAEMON; i++)
        if (limits[i].resource != RLIMIT_STACK)
            raise_to(limits[i].resource, RLIM_INFINITY);
    settle_threads();
}

static const struct limit *limit_of(int resource)
{
    for (size_t i = 0; i < N_LIMITS; i++)
        if (limits[i].resource == resource)
            return &limits[i];
    return NULL;
}

int inherit_check(const struct inherit_need *needs, size_t n, char error[static INHERIT_ERROR])
{
    for (size_t i = 0; i < n; i++) {
        const struct limit *l = limit_of(needs[i].resource);
        rlim_t now = hard_limit(needs[i].resource);

        if (!l || now >= needs[i].wanted)
            continue;
        snprintf(error, INHERIT_ERROR, "%s is %llu, and at least %llu %s are wanted (%s)", l->name,
                 (unsigned long long)now, (unsigned long long)needs[i].wanted, l->unit, l->set);
        return -EPERM;
    }
    return 0;
}

const char *inherit_blame(int error, char words[static INHERIT_ERROR])
{
    int size = 0, number = error < 0 ? -error : error;

    *words = 0;
    for (size_t i = 0; i < N_LIMITS; i++) {
        rlim_t now = soft_limit(limits[i].resource);

        if (!number || (limits[i].error != number && limits[i].by_thread != number) || now == RLIM_INFINITY)
            continue;
        size += snprintf(words + size, INHERIT_ERROR - (size_t)size, "; %s is %llu %s (%s)", limits[i].name,
                         (unsigned long long)now, limits[i].unit, limits[i].set);
    }
    return words;
}

void inherit_widen_table(void)
{
    rlim_t limit = soft_limit(RLIMIT_NOFILE);
    int last = (int)(limit < INHERIT_TABLE ? limit : INHERIT_TABLE) - 1;
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, last);

    if (fd >= 0)
        close(fd);
}

/* --- all of it ------------------------------------------------------------------------------------------------------
 */

int inherit_begin(enum inherit_kind kind, char error[static INHERIT_ERROR])
{
    static const struct inherit_need stack = {RLIMIT_STACK, INHERIT_STACK_LEAST};

    /* before Linux 5.11 each child has to close them, as executors and reapers do */
    (void)close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    settle_limits(kind);
    settle_signals(kind);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int r = stand_in(fd);
        char words[INHERIT_ERROR];

        if (r < 0) {
            snprintf(error, INHERIT_ERROR, "descriptor %d is closed, and nothing can stand in for it: %s%.120s", fd,
                     strerror(-r), inherit_blame(r, words));
            return r;
        }
    }
    return inherit_check(&stack, 1, error);
}
