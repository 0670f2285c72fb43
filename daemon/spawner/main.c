/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsd-spawn: starts executors under the uids of users. It works for the wsd that started it. Or the service
 * manager has started it (wsd-spawn.service). Then a wsd that may not change uids itself connects to it. packet.h
 * describes its start and its packets.
 * Owns its children: those it started and has not reaped yet.
 * Keeps: no process gets a uid or a group below the bound of its command line, or runs anything but wsd-executor. Each
 * child that was started is reported as exited once. None is left when wsd, or this process, ends.
 * Does not parse, allocate, or look names up. Serves only one wsd, which has its own uid. One thread. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descendants.h"
#include "base/inherit.h"
#include "spawner/packet.h"

#define EXIT_USAGE       64
#define EXIT_FAILED      74
#define EXIT_CHILD       127 /* of a child that did not come as far as to be an executor */
#define EXECUTOR_FD      3   /* the first descriptor of an executor */
#define FD_HIGH          64  /* above every number that a child gets */
#define CAPABILITIES_MAX 64
#define ARGUMENTS        7 /* of the executor, behind its name */
#define SANDBOX_ROOM     16384
#define AGAIN_MSEC       20    /* between two rounds of killing strays: a process takes its time to end */
#define END_MSEC         10000 /* only what the kernel does not end takes longer */

struct child {
    uint64_t serial; /* 0: free */
    pid_t pid;
};

static struct child children[SPAWN_CHILDREN_MAX];
static uint32_t first_id;
static char workers[16], sandbox[SANDBOX_ROOM];
static char *arguments[ARGUMENTS + 2] = {(char[]){"wsd-executor"}, workers};
static const char *sandbox_given;
static pid_t self;
static bool strays; /* of executors that have ended */

extern char **environ;

/* --- rights ------------------------------------------------------------------------------------------------------- */

#define CAP_BIT(n) (1u << (n))

static int capabilities_keep(uint32_t kept)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{.effective = kept, .permitted = kept}};

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_capset, &header, sets);
}

static int drop_rights(void)
{
    uint32_t kept = CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_KILL);

    /* Only a process with CAP_SETPCAP can empty the bounding set; for others, no_new_privs makes it meaningless. */
    for (int i = 0; i < CAPABILITIES_MAX; i++)
        if ((i >= 32 || !(kept & CAP_BIT(i))) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0 && errno != EPERM)
            break; /* no more of them */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return -1;
    return capabilities_keep(kept);
}

/* --- one child ---------------------------------------------------------------------------------------------------- */

static void child_fails(const char *what)
{
    fprintf(stderr, "wsd-spawn: %s: %s\n", what, strerror(errno));
    _exit(EXIT_CHILD);
}

/* Moves each descriptor to its number; the others close when the executor begins. */
static int child_descriptors(const int *fds, int executor)
{
    int high[SPAWN_FDS];

    for (unsigned i = 0; i < SPAWN_FDS; i++)
        if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_HIGH)) < 0)
            child_fails("descriptors");
    executor = fcntl(executor, F_DUPFD_CLOEXEC, FD_HIGH);
    if (executor < 0)
        child_fails("descriptors");
    for (unsigned i = 0; i < SPAWN_FDS; i++)
        if (dup2(high[i], EXECUTOR_FD + (int)i) < 0)
            child_fails("descriptors");
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (dup2(high[SPAWN_WORDS], fd) < 0)
            child_fails("descriptors");
    return executor;
}

static void child_signals(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        (void)sigaction(s, &plain, NULL); /* some cannot be */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void child_becomes(const struct spawn_request *q)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;

    if (setgroups(q->n_groups, q->groups) < 0 || setresgid(q->gid, q->gid, q->gid) < 0 ||
        setresuid(q->uid, q->uid, q->uid) < 0 || capabilities_keep(0) < 0)
        child_fails("becoming another user");
    if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0 || r != q->uid || e != q->uid || s != q->uid ||
        rg != q->gid || eg != q->gid || sg != q->gid)
        child_fails("having become another user");
}

_Noreturn static void child_runs(const struct spawn_request *q, const int *fds)
{
    /* before the uid is another: the file was opened by wsd, which may write to it */
    if (q->flags & SPAWN_CGROUP && write(fds[SPAWN_FDS], "0", 1) != 1)
        child_fails("entering its cgroup");
    int executor = child_descriptors(fds, SPAWN_FD_EXECUTOR);
    child_signals();
    child_becomes(q);
    /* becoming another user has cleared it; where that is too late, the parent is another one by now */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != self)
        child_fails("its parent");
    snprintf(workers, sizeof(workers), "%u", q->workers);
    snprintf(sandbox, sizeof(sandbox), "memory=%llu,%s", (unsigned long long)q->memory, sandbox_given);
    syscall(SYS_execveat, executor, "", arguments, environ, AT_EMPTY_PATH);
    child_fails("wsd-executor");
    _exit(EXIT_CHILD);
}

/* --- the watchdog of its unit ------------------------------------------------------------------------------------- */

static int watchdog_fd = -1, watchdog_msec = -1; /* how long poll(2) may wait; -1: there is no watchdog */

/* NOTIFY_SOCKET and WATCHDOG_USEC, as sd_notify(3) has them; executors do not get them. */
static void watchdog_start(void)
{
    const char *path = getenv("NOTIFY_SOCKET"), *text = getenv("WATCHDOG_USEC");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    unsigned long long usec = text ? strtoull(text, NULL, 10) : 0;

    if (n > 1 && n < sizeof(a.sun_path) && usec > 0) {
        memcpy(a.sun_path, path, n);
        if (*path == '@')
            a.sun_path[0] = 0;
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        /* SPAWN_FD_CGROUPS may be free: that says that there is none */
        watchdog_fd = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
        close(fd);
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
        if (watchdog_fd >= 0 && connect(watchdog_fd, (const struct sockaddr *)&a, size) == 0)
            watchdog_msec = (int)(usec / 2000 < 1 ? 1 : usec / 2000 < 3600000 ? usec / 2000 : 3600000);
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

/* All other descriptors are closed. */
static int watchdog_keep(bool accepted)
{
    int kept = SPAWN_FD_EXECUTOR;

    /* which is closed at the end of this process, when nothing is below it */
    if (!accepted && fcntl(SPAWN_FD_LEFT, F_SETFD, FD_CLOEXEC) == 0)
        kept = SPAWN_FD_LEFT;

    if (watchdog_msec >= 0) {
        kept = SPAWN_FD_CGROUPS; /* which has been handed over */
        if (watchdog_fd != kept && dup3(watchdog_fd, kept, O_CLOEXEC) < 0)
            return -1;
        watchdog_fd = kept;
    }
    return close_range((unsigned)kept + 1, ~0u, 0);
}

/* As poll(2); each wait ends in time to notify the watchdog. */
static int wait_for(struct pollfd *p, nfds_t n)
{
    int msec = strays && (watchdog_msec < 0 || watchdog_msec > AGAIN_MSEC) ? AGAIN_MSEC : watchdog_msec;

    static const char alive[] = "WATCHDOG=1";

    if (watchdog_msec >= 0 && send(watchdog_fd, alive, sizeof(alive) - 1, MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED)
        watchdog_msec = -1; /* the service manager has gone */
    return poll(p, n, msec);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* No process is spared, since only executors of wsd's own user run commands and so have reapers. */
static int is_spared(pid_t pid)
{
    for (unsigned i = 0; i < SPAWN_CHILDREN_MAX; i++)
        if (children[i].serial && children[i].pid == pid)
            return 1;
    return 0;
}

/* Nothing is left of executors. */
_Noreturn static void end_without_wsd(bool is_closed)
{
    int status = is_closed || errno == EPIPE || errno == ECONNRESET ? EXIT_SUCCESS : EXIT_FAILED;

    (void)descendants_end(NULL, END_MSEC);
    _exit(status);
}

static void answer(const struct spawn_reply *a, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)a, .iov_len = sizeof(*a)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (fd >= 0) {
        m.msg_control = &ancillary;
        m.msg_controllen = sizeof(ancillary);
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(int));
    }
    do
        n = sendmsg(SPAWN_FD_SOCKET, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        end_without_wsd(false);
}

static struct child *child_of(uint64_t serial)
{
    for (unsigned i = 0; i < SPAWN_CHILDREN_MAX; i++)
        if (children[i].serial == serial)
            return &children[i];
    return NULL;
}

static int start_child(const struct spawn_request *q, const int *fds, struct spawn_reply *ret, int *ret_pidfd)
{
    struct child *c = child_of(0);

    if (child_of(q->serial))
        return EEXIST;
    if (!c)
        return EAGAIN;
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        child_runs(q, fds);
    *ret_pidfd = pidfd_open(pid, 0);
    if (*ret_pidfd < 0) {
        int e = errno;

        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return e;
    }
    *c = (struct child){.serial = q->serial, .pid = pid};
    ret->pid = pid;
    return 0;
}

static void handle(const struct spawn_request *q, size_t size, const int *fds, unsigned n_fds)
{
    int error = spawn_check(q, size, n_fds, first_id), pidfd = -1;
    struct spawn_reply reply = {.kind = SPAWN_STARTED};

    if (error == EBADMSG) {
        static bool told;

        if (!told)
            fputs("wsd-spawn: packets that say nothing are not heeded\n", stderr);
        told = true;
        return;
    }
    if (q->kind == SPAWN_PING) {
        answer(&(struct spawn_reply){.kind = SPAWN_PONG, .serial = q->serial}, -1);
        return;
    }
    if (q->kind == SPAWN_KILL) {
        struct child *c = child_of(q->serial);

        if (c)
            kill(c->pid, SIGKILL); /* not reaped yet: the number is still its own */
        return;
    }
    reply.serial = q->serial;
    if (error == 0)
        error = start_child(q, fds, &reply, &pidfd);
    reply.error = (uint32_t)error;
    answer(&reply, pidfd);
    if (pidfd >= 0)
        close(pidfd);
}

/* Takes as many descriptors as fit, so that they can be closed. *ret_n: their number; one more than fit where some were
 * cut off. */
static void take_descriptors(struct msghdr *m, int fds[SPAWN_FDS_MAX + 1], unsigned *ret_n)
{
    unsigned n = 0;

    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int) && n <= SPAWN_FDS_MAX; i++)
            memcpy(&fds[n++], CMSG_DATA(h) + i * sizeof(int), sizeof(int));
    }
    *ret_n = n;
}

static void take_request(void)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE((SPAWN_FDS_MAX + 1) * sizeof(int))];
    } ancillary;
    struct spawn_request q;
    struct iovec iov = {.iov_base = &q, .iov_len = sizeof(q)};
    /* not the room's size: in what it has for alignment the kernel would put another descriptor */
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &ancillary,
                       .msg_controllen = CMSG_LEN((SPAWN_FDS_MAX + 1) * sizeof(int))};
    int fds[SPAWN_FDS_MAX + 1];
    unsigned n_fds;

    ssize_t n = recvmsg(SPAWN_FD_SOCKET, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        end_without_wsd(n == 0);
    take_descriptors(&m, fds, &n_fds);
    handle(&q, m.msg_flags & MSG_TRUNC ? sizeof(q) + 1 : (size_t)n, fds,
           m.msg_flags & MSG_CTRUNC ? SPAWN_FDS_MAX + 1 : n_fds);
    for (unsigned i = 0; i < n_fds; i++)
        close(fds[i]);
}

static void reap_children(int signals)
{
    struct signalfd_siginfo ignored;

    if (read(signals, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN && errno != EINTR)
        _exit(EXIT_FAILED);
    for (;;) {
        siginfo_t info = {0};

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
            return;
        for (unsigned i = 0; i < SPAWN_CHILDREN_MAX; i++)
            if (children[i].serial && children[i].pid == info.si_pid) {
                answer(&(struct spawn_reply){.kind = SPAWN_EXITED,
                                             .serial = children[i].serial,
                                             .pid = info.si_pid,
                                             .code = info.si_code,
                                             .status = info.si_status},
                       -1);
                children[i] = (struct child){0};
                strays = true;
                break;
            }
    }
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static bool parse_arguments(int argc, char **argv)
{
    char *end;

    if (argc != ARGUMENTS + 1)
        return false;
    errno = 0;
    unsigned long n = strtoul(argv[1], &end, 10);
    if (errno || *end || end == argv[1] || argv[1][0] == '-' || n < 1 || n >= UINT32_MAX)
        return false;
    first_id = (uint32_t)n;
    for (int i = 2; i < ARGUMENTS; i++)
        arguments[i] = argv[i];
    sandbox_given = argv[ARGUMENTS];
    arguments[ARGUMENTS] = sandbox;
    return strlen(sandbox_given) < SANDBOX_ROOM - 64;
}

static bool socket_says(int option, int *ret)
{
    socklen_t size = sizeof(*ret);

    return getsockopt(SPAWN_FD_SOCKET, SOL_SOCKET, option, ret, &size) == 0;
}

static bool peer_of(int fd, struct ucred *ret)
{
    socklen_t size = sizeof(*ret);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) == 0;
}

/* A wsd that has connected and did not wait. */
static bool has_gone(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Accepts the first client with this process's uid, and replaces the listening socket by its connection. Later clients
 * are the next helper's. */
static bool accept_wsd(void)
{
    struct pollfd p = {.fd = SPAWN_FD_SOCKET, .events = POLLIN};
    struct ucred peer;

    for (;;) {
        if (wait_for(&p, 1) < 0 && errno != EINTR)
            return false;
        if (!p.revents)
            continue;
        int fd = accept4(SPAWN_FD_SOCKET, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 && errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
            return false;
        if (fd >= 0 && has_gone(fd)) {
            close(fd);
            continue;
        }
        if (fd >= 0 && peer_of(fd, &peer) && peer.uid == getuid()) {
            bool taken = dup2(fd, SPAWN_FD_SOCKET) >= 0;

            close(fd);
            return taken;
        }
        if (fd < 0)
            continue;
        fprintf(stderr, "wsd-spawn: user %u is not heard: wsd runs as user %u\n", peer.uid, getuid());
        close(fd);
    }
}

/* The other end of a socket pair was made by wsd, which must still be the parent. */
static bool find_wsd(bool *ret_accepted)
{
    struct ucred peer;
    int type, listens;

    if (!socket_says(SO_TYPE, &type) || type != SOCK_SEQPACKET || !socket_says(SO_ACCEPTCONN, &listens))
        return false;
    *ret_accepted = listens;
    return listens ? accept_wsd() : peer_of(SPAWN_FD_SOCKET, &peer) && peer.pid == getppid();
}

static int prepare_process(void)
{
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t chld;
    bool accepted;

    self = getpid();
    watchdog_start();
    if (prctl(PR_SET_NAME, "wsd-spawn") < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ||
        /* stopped, it goes on, and sees that wsd is gone */
        prctl(PR_SET_PDEATHSIG, SIGCONT) < 0 || drop_rights() < 0 || !find_wsd(&accepted))
        return -1;
    if (accepted)
        answer(&(struct spawn_reply){.kind = SPAWN_READY},
               fcntl(SPAWN_FD_CGROUPS, F_GETFD) < 0 ? -1 : SPAWN_FD_CGROUPS);
    for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
        if (!accepted || ignored[i] != SIGTERM) /* a service manager ends its unit so */
            sigaction(ignored[i], &ignore, NULL);
    if (fcntl(SPAWN_FD_SOCKET, F_SETFD, FD_CLOEXEC) < 0 || fcntl(SPAWN_FD_EXECUTOR, F_SETFD, FD_CLOEXEC) < 0 ||
        watchdog_keep(accepted) < 0)
        return -1;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    return signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
    char error[INHERIT_ERROR];

    if (inherit_begin(INHERIT_DAEMON, error) < 0) {
        fprintf(stderr, "wsd-spawn: cannot start: %s\n", error);
        return EXIT_FAILED;
    }
    if (!parse_arguments(argc, argv)) {
        fputs("wsd-spawn: started by wsd only: wsd-spawn FIRST_ID "
              "PLUGIN_DIR[:PLUGIN_DIR...] any|dirs LOG_LEVEL pin|free STACK SANDBOX\n",
              stderr);
        return EXIT_USAGE;
    }
    int signals = prepare_process();
    if (signals < 0) {
        fprintf(stderr, "wsd-spawn: cannot begin: %s\n", strerror(errno));
        _exit(EXIT_FAILED);
    }
    for (;;) {
        struct pollfd p[] = {{.fd = SPAWN_FD_SOCKET, .events = POLLIN}, {.fd = signals, .events = POLLIN}};

        if (wait_for(p, 2) < 0) {
            if (errno != EINTR)
                _exit(EXIT_FAILED);
            continue;
        }
        if (p[1].revents)
            reap_children(signals);
        if (strays)
            strays = descendants_kill(is_spared) > 0;
        if (p[0].revents)
            take_request();
    }
}
