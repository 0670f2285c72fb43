/* SPDX-License-Identifier: Apache-2.0
 *
 * reaper.c: the process that starts commands and ends them with all their descendants; reaper.h has the protocol.
 * Owns its children: keepers, and what a keeper that was killed has left. A keeper owns one command and its
 * descendants. Keeps: the handle of a command is closed only when nothing of the command is left. No descriptor but 0,
 * 1 and 2 goes to the command, and signals are as usual in it. Does not allocate: in `wsctl submit --local` it is a
 * fork of a process with threads. */
#include "host/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"
#include "base/descendants.h"

#define KEEPERS_MAX 4096u
#define AT_ONCE_MAX 64u /* rounds of killing one behind the other: what forks must not be faster */
#define AGAIN_MSEC  2   /* between later ones: a process takes its time to end */
#define SIGNALS     64
#define EXIT_LEFT   1 /* of a keeper that could not end everything */

/* Descriptors of a reaper; a keeper has its handle in the place of the socket, and the command's three behind. */
enum { FD_SOCKET = 3, FD_LIFE, FD_PARENT, FD_SIGNALS, FD_FIRST };
enum { FD_HANDLE = FD_SOCKET, FD_INPUT = FD_FIRST, FD_OUTPUT, FD_ERROR, FD_KEEPER_FIRST };
#define FD_HIGH 32 /* above all of these */

struct keeper {
    pid_t pid; /* 0: free */
    int handle;
};

static struct keeper keepers[KEEPERS_MAX];
static size_t n_keepers; /* places that were ever in use; 0 in a keeper */

static int is_keeper(pid_t pid)
{
    for (size_t i = 0; i < n_keepers; i++)
        if (keepers[i].pid == pid)
            return 1;
    return 0;
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

static int lift(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
}

/* Each, FD_HIGH or above, as its number in `to`; what is there already goes. False: there is not each of them. */
static bool place(const int *from, const int *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (from[i] < 0 || dup3(from[i], to[i], O_CLOEXEC) < 0)
            return false;
    return true;
}

static void settle_process(int socket, int life, pid_t parent)
{
    static const int to[] = {FD_SOCKET, FD_LIFE, FD_PARENT, FD_SIGNALS};
    cpu_set_t cpus;
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    int null = lift(open("/dev/null", O_RDWR | O_CLOEXEC)), pidfd = pidfd_open(parent, 0);
    const int from[] = {lift(socket), lift(life < 0 ? pidfd : life), lift(pidfd),
                        lift(signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC))};
    if (null < 0 || !place(from, to, ARRAY_SIZE(from)) || getppid() != parent)
        _exit(EXIT_LEFT);
    for (int fd = 0; fd < FD_SOCKET; fd++)
        dup2(null, fd);
    close_range(FD_FIRST, ~0u, 0);
    prctl(PR_SET_NAME, REAPER_NAME);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* the thread that has started this may sit on one CPU; the first one of its process never does */
    if (sched_getaffinity(parent, sizeof(cpus), &cpus) == 0)
        (void)sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void drain_signals(void)
{
    struct signalfd_siginfo info;

    while (read(FD_SIGNALS, &info, sizeof(info)) > 0)
        ;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

struct command {
    char *directory;
    char **argv, **environment;
    pid_t pid; /* 0: reaped */
    int status;
    bool told; /* how it ended */
};

static bool read_all(int fd, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t n = read(fd, at, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static char *next_text(char **at, const char *end)
{
    char *text = *at;
    size_t n = strnlen(text, (size_t)(end - text));

    if (text + n == end)
        return NULL;
    *at = text + n + 1;
    return text;
}

static bool take_texts(char **to, uint32_t n, char **at, const char *end)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(to[i] = next_text(at, end)))
            return false;
    return true;
}

/* 0 or a positive errno; -1: the requester is gone. */
static int read_request(struct command *c)
{
    struct reaper_request q;

    if (!read_all(FD_HANDLE, &q, sizeof(q)))
        return -1;
    if (q.argc == 0 || q.text_size > REAPER_TEXT_MAX || q.argc > q.text_size || q.n_environment > q.text_size)
        return E2BIG;
    size_t size = ((size_t)q.argc + q.n_environment + 2) * sizeof(char *);
    char **pointers = mmap(NULL, size + q.text_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pointers == MAP_FAILED)
        return ENOMEM;
    char *at = (char *)pointers + size, *end = at + q.text_size;
    if (!read_all(FD_HANDLE, at, q.text_size))
        return -1;
    c->argv = pointers;
    c->environment = pointers + q.argc + 1;
    c->directory = next_text(&at, end);
    if (!c->directory || !take_texts(c->argv, q.argc, &at, end) ||
        !take_texts(c->environment, q.n_environment, &at, end))
        return EINVAL;
    return 0;
}

/* The C library keeps two signals to itself, and posix_spawn() leaves them ignored: so they are asked of the kernel. */
static void plain_signals(void)
{
    static const unsigned long by_default[8]; /* the kernel's struct sigaction */
    sigset_t none;

    for (int i = 1; i <= SIGNALS; i++)
        syscall(SYS_rt_sigaction, i, by_default, NULL, (size_t)SIGNALS / 8);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_command(const struct command *c, pid_t keeper, volatile int *ret_error)
{
    setsid();
    /* for the kill -9 of its keeper, and of the reaper at once */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == keeper && chdir(c->directory) == 0 &&
        dup2(FD_INPUT, 0) == 0 && dup2(FD_OUTPUT, 1) == 1 && dup2(FD_ERROR, 2) == 2 &&
        close_range(FD_SOCKET, ~0u, 0) == 0) {
        plain_signals();
        execvp(c->argv[0], c->argv); /* which has /bin/sh run a script without #! */
    }
    *ret_error = errno ? errno : ECHILD;
    _exit(127);
}

/* 0 or a positive errno. vfork(): the child uses this memory until it is another program, so that its error is here. */
static int start_command(struct command *c)
{
    volatile int error = 0;
    pid_t self = getpid();

    environ = c->environment;
    errno = 0;
    pid_t pid = vfork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        become_command(c, self, &error);
    if (error) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return error;
    }
    c->pid = pid;
    for (int fd = FD_INPUT; fd <= FD_ERROR; fd++)
        close(fd);
    return 0;
}

/* --- the keeper --------------------------------------------------------------------------------------------------- */

/* False: no child is left. */
static bool reap_children(struct command *c)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == c->pid) {
            c->pid = 0;
            c->status = status;
        }
    return pid == 0;
}

static void tell_end(struct command *c, bool left)
{
    const struct wsd_command_end end = {.status = c->status, .left = left};

    if (!c->told)
        (void)send(FD_HANDLE, &end, sizeof(end), MSG_NOSIGNAL | MSG_DONTWAIT);
    c->told = true;
}

/* Sends a signal to the command's process group; its number stays its own until the command is reaped. False: the
 * handle was closed. */
static bool take_signal(const struct command *c)
{
    int32_t signal;

    if (!read_all(FD_HANDLE, &signal, sizeof(signal)))
        return false;
    if (c->pid > 0 && signal > 0 && signal <= SIGNALS)
        kill(-c->pid, signal);
    return true;
}

static _Noreturn void end_all(struct command *c)
{
    struct pollfd p = {.fd = FD_SIGNALS, .events = POLLIN};

    for (unsigned round = 1; reap_children(c); round++) {
        if (descendants_kill(is_keeper) < 0)
            _exit(EXIT_LEFT); /* which is the death signal of the command itself */
        (void)poll(&p, 1, round < AT_ONCE_MAX ? 0 : AGAIN_MSEC);
        drain_signals();
    }
    tell_end(c, false);
    _exit(EXIT_SUCCESS);
}

static _Noreturn void keep_command(struct command *c)
{
    for (;;) {
        struct pollfd p[] = {{.fd = FD_HANDLE, .events = POLLIN},
                             {.fd = FD_LIFE, .events = POLLIN},
                             {.fd = FD_PARENT, .events = POLLIN},
                             {.fd = FD_SIGNALS, .events = POLLIN}};

        if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
            end_all(c);
        if (p[3].revents) {
            drain_signals();
            bool left = reap_children(c);
            if (c->pid == 0)
                tell_end(c, left);
            if (!left)
                _exit(EXIT_SUCCESS);
        }
        if (p[1].revents || p[2].revents || (p[0].revents && !take_signal(c)))
            end_all(c);
    }
}

static _Noreturn void keeper_run(const int fds[static REAPER_FDS])
{
    static const int to[] = {FD_HANDLE, FD_INPUT, FD_OUTPUT, FD_ERROR};
    const int from[] = {lift(fds[0]), lift(fds[1]), lift(fds[2]), lift(fds[3])};
    struct command c = {0};

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    n_keepers = 0; /* the others are the reaper's */
    if (!place(from, to, ARRAY_SIZE(from)))
        _exit(EXIT_SUCCESS);
    close_range(FD_KEEPER_FIRST, ~0u, 0); /* handles of others among them */
    int error = read_request(&c);
    if (error == 0)
        error = start_command(&c);
    int32_t answer = error;
    if (error >= 0 && send(FD_HANDLE, &answer, sizeof(answer), MSG_NOSIGNAL) < 0 && error == 0)
        end_all(&c);
    if (error != 0)
        _exit(EXIT_SUCCESS);
    keep_command(&c);
}

/* --- the reaper --------------------------------------------------------------------------------------------------- */

static struct keeper *keeper_of(pid_t pid)
{
    for (size_t i = 0; i < n_keepers; i++)
        if (keepers[i].pid == pid)
            return &keepers[i];
    return NULL;
}

static bool has_keepers(void)
{
    for (size_t i = 0; i < n_keepers; i++)
        if (keepers[i].pid > 0)
            return true;
    return false;
}

/* Ends what a keeper that was killed has left, before anybody hears of it. */
static void end_strays(void)
{
    while (descendants_kill(is_keeper) > 0) {
        descendants_reap();
        usleep(AGAIN_MSEC * 1000);
    }
}

static void reap_keepers(void)
{
    siginfo_t info = {0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid > 0) {
        struct keeper *k = keeper_of(info.si_pid);

        if (k) {
            k->pid = 0;
            if (info.si_code != CLD_EXITED || info.si_status != EXIT_SUCCESS)
                end_strays();
            close(k->handle);
        }
        info.si_pid = 0;
    }
}

static size_t take_descriptors(struct msghdr *m, int fds[static REAPER_FDS])
{
    struct cmsghdr *h = CMSG_FIRSTHDR(m);

    if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
        return 0;
    size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(h), n * sizeof(int));
    return n;
}

static struct keeper *free_place(void)
{
    struct keeper *k = keeper_of(0);

    return k ? k : n_keepers < KEEPERS_MAX ? &keepers[n_keepers++] : NULL;
}

static void start_keeper(const int fds[static REAPER_FDS])
{
    struct keeper *k = free_place();
    pid_t pid = k ? fork() : -1;

    if (pid == 0)
        keeper_run(fds);
    if (pid > 0)
        *k = (struct keeper){.pid = pid, .handle = fds[0]};
    for (size_t i = pid > 0; i < REAPER_FDS; i++)
        close(fds[i]);
}

/* False: the requester is gone. */
static bool take_request(void)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(REAPER_FDS * sizeof(int))];
    } ancillary;
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    int fds[REAPER_FDS];

    ssize_t n = recvmsg(FD_SOCKET, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n == 0)
        return false;
    size_t n_fds = take_descriptors(&m, fds);
    if (n_fds == REAPER_FDS)
        start_keeper(fds);
    else
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
    return true;
}

_Noreturn void reaper_run(int socket, int life, pid_t parent)
{
    bool serves = true;

    settle_process(socket, life, parent);
    while (serves || has_keepers()) {
        struct pollfd p[] = {{.fd = serves ? FD_SOCKET : -1, .events = POLLIN},
                             {.fd = serves ? FD_LIFE : -1, .events = POLLIN},
                             {.fd = serves ? FD_PARENT : -1, .events = POLLIN},
                             {.fd = FD_SIGNALS, .events = POLLIN}};

        if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
            break;
        if (p[3].revents) {
            drain_signals();
            reap_keepers();
        }
        if (p[1].revents || p[2].revents || (p[0].revents && !take_request()))
            serves = false; /* the keepers see it too */
    }
    end_strays();
    _exit(EXIT_SUCCESS);
}
