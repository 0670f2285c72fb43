/* SPDX-License-Identifier: Apache-2.0
 *
 * hostile.c: test plugin: reaches for what is not its own. Each try is a line of output: `NAME refused` where it was
 * not permitted, `NAME done`, or `NAME open: ERROR` where it failed, but not for want of permission. */
#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/personality.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wsd/plugin.h>

#include "ring/control.h"

#define FDS_MAX 1024
#define PIECE   (64u * 1024)
#define EAT     (1u << 20)
#define HUNT    (1u << 30) /* bytes of a mapping */
#define COPIES  253u       /* descriptors in a packet: the kernel's limit */

static char piece[PIECE]; /* what is looked at, copied by the kernel: that does not fault */

static void tell(struct wsd_job *job, const char *name, long r)
{
    if (r >= 0)
        wsd_job_print(job, "%s done\n", name);
    else if (errno == EPERM || errno == EACCES)
        wsd_job_print(job, "%s refused\n", name);
    else
        wsd_job_print(job, "%s open: %s\n", name, strerror(errno));
}

static int open_of(long pid, const char *what, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/%s", pid, what);
    return open(path, flags | O_CLOEXEC);
}

/* --- another process ---------------------------------------------------------------------------------------------- */

static void attack_memory(struct wsd_job *job, pid_t pid, unsigned long address)
{
    char byte = 0;
    struct iovec local = {&byte, 1}, remote = {(void *)address, 1};
    int fd = open_of(pid, "mem", O_RDONLY);

    tell(job, "mem-read", fd < 0 ? fd : pread(fd, &byte, 1, (off_t)address));
    close(fd);
    fd = open_of(pid, "mem", O_RDWR);
    tell(job, "mem-write", fd < 0 ? fd : pwrite(fd, &byte, 1, (off_t)address));
    close(fd);
    tell(job, "vm-readv", process_vm_readv(pid, &local, 1, &remote, 1, 0));
    tell(job, "vm-writev", process_vm_writev(pid, &local, 1, &remote, 1, 0));
    tell(job, "ptrace", ptrace(PTRACE_SEIZE, pid, 0, 0));
}

static void attack_files(struct wsd_job *job, pid_t pid)
{
    char path[64];
    char target[256];
    int pidfd = pidfd_open(pid, 0), fd;

    tell(job, "pidfd-getfd", pidfd < 0 ? pidfd : pidfd_getfd(pidfd, 2, 0));
    close(pidfd);
    snprintf(path, sizeof(path), "/proc/%d/fd/2", pid);
    tell(job, "fd-link", readlink(path, target, sizeof(target)));
    tell(job, "fd-open", fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC));
    close(fd);
    tell(job, "fdinfo", fd = open_of(pid, "fdinfo/2", O_RDONLY));
    close(fd);
    snprintf(path, sizeof(path), "/proc/%d/cwd", pid);
    tell(job, "cwd", readlink(path, target, sizeof(target)));
    snprintf(path, sizeof(path), "/proc/%d/root/.", pid);
    tell(job, "root", fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    close(fd);
    tell(job, "maps", fd = open_of(pid, "maps", O_RDONLY));
    close(fd);
    tell(job, "environ", fd = open_of(pid, "environ", O_RDONLY));
    close(fd);
    tell(job, "kcmp", syscall(SYS_kcmp, getpid(), pid, 1, 0, 0));
}

static void attack_life(struct wsd_job *job, pid_t pid)
{
    siginfo_t info = {.si_signo = SIGCONT, .si_code = SI_QUEUE};
    struct rlimit limit;
    int pidfd = pidfd_open(pid, 0);

    info.si_pid = getpid();
    tell(job, "prlimit", prlimit(pid, RLIMIT_NOFILE, NULL, &limit));
    tell(job, "kill", kill(pid, SIGCONT));
    tell(job, "tgkill", syscall(SYS_tgkill, pid, pid, SIGCONT));
    tell(job, "tkill", syscall(SYS_tkill, pid, SIGCONT));
    tell(job, "sigqueue", syscall(SYS_rt_sigqueueinfo, pid, SIGCONT, &info));
    tell(job, "tgsigqueue", syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGCONT, &info));
    tell(job, "pidfd-signal", pidfd < 0 ? pidfd : pidfd_send_signal(pidfd, SIGCONT, NULL, 0));
    close(pidfd);
    tell(job, "kill-9", kill(pid, SIGKILL));
}

/* PID ADDRESS: everything that one process can do to another. The last of it is the end of the other one. */
static int attack(struct wsd_job *job, struct wsd_worker *self)
{
    pid_t pid = job->argc == 3 ? atoi(job->argv[1]) : 0;

    if (pid <= 0)
        return wsd_job_fail(job, 2, "PID ADDRESS");
    attack_memory(job, pid, strtoul(job->argv[2], NULL, 16));
    attack_files(job, pid);
    attack_life(job, pid);
    return 0;
}

/* PID: a signal by the kernel's hand, of which only the target can tell. */
static int async(struct wsd_job *job, struct wsd_worker *self)
{
    pid_t pid = job->argc == 2 ? atoi(job->argv[1]) : 0;
    struct f_owner_ex owner = {F_OWNER_PID, pid};
    int pair[2];

    if (pid <= 0)
        return wsd_job_fail(job, 2, "PID");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return wsd_job_fail(job, 1, "no sockets");
    tell(job, "setown", fcntl(pair[0], F_SETOWN, pid));
    tell(job, "setown-ex", fcntl(pair[0], F_SETOWN_EX, &owner));
    tell(job, "fiosetown", ioctl(pair[0], FIOSETOWN, &pid));
    tell(job, "siocspgrp", ioctl(pair[0], SIOCSPGRP, &pid));
    tell(job, "setsig", fcntl(pair[0], F_SETSIG, SIGKILL));
    int bad = fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK) < 0 || write(pair[1], "x", 1) < 0;
    close(pair[0]);
    close(pair[1]);
    return bad;
}

static int whoami(struct wsd_job *job, struct wsd_worker *self)
{
    return wsd_job_print(job, "%d\n", getpid()) < 0;
}

/* PID: what only an executor that runs no commands refuses itself. */
static int nudge(struct wsd_job *job, struct wsd_worker *self)
{
    const struct sched_param p = {0};
    pid_t pid = job->argc == 2 ? atoi(job->argv[1]) : 0;

    tell(job, "setpriority", setpriority(PRIO_PROCESS, (id_t)pid, 0));
    tell(job, "setpriority-user", setpriority(PRIO_USER, 0, 0));
    tell(job, "sched_setscheduler", sched_setscheduler(pid, SCHED_OTHER, &p));
    tell(job, "ioprio_set", syscall(SYS_ioprio_set, 1, pid, 0));
    return 0;
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

/* Each would go well, or fail by its arguments, where root is not confined. */
static int calls(struct wsd_job *job, struct wsd_worker *self)
{
    char path[64];

    tell(job, "ptrace", ptrace(PTRACE_CONT, getpid(), 0, 0));
    tell(job, "mount", syscall(SYS_mount, NULL, NULL, NULL, 0, NULL));
    tell(job, "umount2", syscall(SYS_umount2, "/nowhere", 0));
    tell(job, "open_tree", syscall(SYS_open_tree, -1, NULL, 0));
    tell(job, "fsopen", syscall(SYS_fsopen, NULL, 0));
    tell(job, "pivot_root", syscall(SYS_pivot_root, "/nowhere", "/nowhere"));
    tell(job, "chroot", syscall(SYS_chroot, "/nowhere"));
    tell(job, "unshare", syscall(SYS_unshare, 0));
    tell(job, "setns", syscall(SYS_setns, -1, 0));
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        syscall(SYS_exit_group, 0);
    tell(job, "clone-user", child);
    if (child > 0)
        waitpid((pid_t)child, NULL, 0);
    tell(job, "bpf", syscall(SYS_bpf, -1, NULL, 0));
    tell(job, "perf_event_open", syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0));
    tell(job, "userfaultfd", syscall(SYS_userfaultfd, -1));
    tell(job, "keyctl", syscall(SYS_keyctl, -1));
    tell(job, "add_key", syscall(SYS_add_key, NULL, NULL, NULL, 0, 0));
    tell(job, "reboot", syscall(SYS_reboot, 0, 0, 0, 0));
    tell(job, "swapon", syscall(SYS_swapon, "/nowhere", 0));
    tell(job, "acct", syscall(SYS_acct, "/nowhere"));
    tell(job, "sethostname", syscall(SYS_sethostname, NULL, -1));
    tell(job, "settimeofday", syscall(SYS_settimeofday, NULL, NULL));
    tell(job, "personality", personality(PER_LINUX));
    tell(job, "open_by_handle_at", syscall(SYS_open_by_handle_at, -1, NULL, 0));
    int memory = shmget(IPC_PRIVATE, 4096, 0600), set = semget(IPC_PRIVATE, 1, 0600), queue = msgget(IPC_PRIVATE, 0600);
    tell(job, "shmget", memory);
    tell(job, "shmat", shmat(memory, NULL, 0) == (void *)-1 ? -1 : 0);
    tell(job, "shmctl", shmctl(memory, IPC_RMID, NULL));
    tell(job, "semget", set);
    tell(job, "semop", semop(set, &(struct sembuf){.sem_op = 1}, 1));
    tell(job, "semtimedop", semtimedop(set, &(struct sembuf){.sem_op = 1}, 1, NULL));
    tell(job, "semctl", semctl(set, 0, IPC_RMID));
    tell(job, "msgget", queue);
    tell(job, "msgsnd", msgsnd(queue, &(long[]){1}, 0, IPC_NOWAIT));
    tell(job, "msgrcv", msgrcv(queue, &(long[]){1}, 0, 0, IPC_NOWAIT));
    tell(job, "msgctl", msgctl(queue, IPC_RMID, NULL));
    tell(job, "mq_open", syscall(SYS_mq_open, NULL, 0, 0, NULL));
    tell(job, "mq_unlink", syscall(SYS_mq_unlink, NULL));
    tell(job, "mq_timedsend", syscall(SYS_mq_timedsend, -1, NULL, 0, 0, NULL));
    tell(job, "mq_timedreceive", syscall(SYS_mq_timedreceive, -1, NULL, 0, NULL, NULL));
    tell(job, "mq_notify", syscall(SYS_mq_notify, -1, NULL));
    tell(job, "mq_getsetattr", syscall(SYS_mq_getsetattr, -1, NULL, NULL));
    tell(job, "tiocsti", ioctl(0, TIOCSTI, NULL));
    tell(job, "dumpable", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    snprintf(path, sizeof(path), "/dev/shm/wsd-device-%d", getpid());
    tell(job, "mknod", mknod(path, S_IFCHR | 0600, makedev(1, 3)));
    unlink(path);
    return 0;
}

/* SOCKET: a plain call that an administrator may deny beside. */
static int network(struct wsd_job *job, struct wsd_worker *self)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    tell(job, "socket", fd);
    close(fd);
    tell(job, "times", syscall(SYS_times, NULL));
    return 0;
}

static void unit_socket(struct wsd_job *job, const char *name, int family)
{
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    tell(job, name, fd);
    close(fd);
}

/* What nothing but the service's unit forbids: an executor of another wsd does it all, as root. */
static int unit(struct wsd_job *job, struct wsd_worker *self)
{
    int fd = memfd_create("unit", MFD_CLOEXEC);

    unit_socket(job, "inet", AF_INET);
    unit_socket(job, "netlink", AF_NETLINK);
    tell(job, "set-user-id", fchmod(fd, 04700));
    close(fd);
    tell(job, "others' processes", access("/proc/1/status", F_OK));
    tell(job, "homes", access("/root/.", F_OK));
    return 0;
}

/* DIRECTORY SOCKET: what a wsd of all users does not need. */
static int files(struct wsd_job *job, struct wsd_worker *self)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[4096], *argv[] = {(char[]){"true"}, NULL}, *none[] = {NULL};
    pid_t pid;
    int fd;

    if (job->argc != 3)
        return wsd_job_fail(job, 2, "DIRECTORY SOCKET");
    snprintf(path, sizeof(path), "%s/made", job->argv[1]);
    tell(job, "create", fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close(fd);
    snprintf(path, sizeof(path), "%s/there", job->argv[1]);
    tell(job, "write", fd = open(path, O_WRONLY | O_CLOEXEC));
    close(fd);
    tell(job, "truncate", truncate(path, 0));
    tell(job, "unlink", unlink(path));
    snprintf(path, sizeof(path), "%s/made-dir", job->argv[1]);
    tell(job, "mkdir", mkdir(path, 0700));
    tell(job, "tmpfile", fd = open(job->argv[1], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    close(fd);
    errno = posix_spawn(&pid, "/bin/true", NULL, NULL, argv, none);
    tell(job, "spawn", errno ? -1 : 0);
    if (!errno)
        waitpid(pid, NULL, 0);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", job->argv[2]);
    tell(job, "connect", fd < 0 ? fd : connect(fd, (struct sockaddr *)&a, sizeof(a)));
    close(fd);
    /* and what every program does */
    tell(job, "null", fd = open("/dev/null", O_WRONLY | O_TRUNC | O_CLOEXEC));
    close(fd);
    tell(job, "memfd", fd = memfd_create("hostile", MFD_CLOEXEC));
    tell(job, "memfd-truncate", fd < 0 ? fd : ftruncate(fd, 4096));
    close(fd);
    return 0;
}

/* --- what was left behind ----------------------------------------------------------------------------------------- */

static int fds(struct wsd_job *job, struct wsd_worker *self)
{
    char path[64], target[256];

    for (int fd = 0; fd < FDS_MAX; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof(target));

        if (n >= 0)
            wsd_job_print(job, "%d %.*s\n", fd, (int)n, target);
    }
    return 0;
}

/* Writes to whatever is open. */
static int scribble(struct wsd_job *job, struct wsd_worker *self)
{
    static const char junk[64] = "junk";
    int n = 0;

    for (int fd = 0; fd < FDS_MAX; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            n += write(fd, junk, sizeof(junk)) > 0;
    return wsd_job_print(job, "%d took it\n", n) < 0;
}

/* The executor's control socket, by which it speaks to wsd. */
static int control_socket(void)
{
    struct sockaddr_storage a;
    socklen_t size;

    for (int fd = 3; fd < FDS_MAX; fd++) {
        int type = 0;

        size = sizeof(type);
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)
            continue;
        size = sizeof(a);
        if (getpeername(fd, (struct sockaddr *)&a, &size) == 0 && a.ss_family == AF_UNIX)
            return fd;
    }
    return -1;
}

/* Some bytes with n copies of a descriptor. */
static ssize_t send_copies(int to, const void *bytes, size_t size, int fd, size_t n)
{
    union {
        char bytes[CMSG_SPACE(COPIES * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec v = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(n * sizeof(int))};

    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(n * sizeof(int));
    for (size_t i = 0; i < n; i++)
        memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &fd, sizeof(int));
    return sendmsg(to, &h, MSG_NOSIGNAL);
}

/* [LIFE]: sends wsd the control socket by which it speaks to it: as that of a reaper, and many times in one packet,
 * which is nonsense. LIFE: a stream socket, too, as a reaper's, that holds itself and the control socket: its end never
 * comes. */
static int smuggle(struct wsd_job *job, struct wsd_worker *self)
{
    const struct control reaper = {.kind = CONTROL_REAPER};
    int to = control_socket(), pair[2];

    if (to < 0 || send_copies(to, &reaper, CONTROL_HEADER, to, 1) < 0)
        return wsd_job_fail(job, 1, "sendmsg: %s", strerror(errno));
    if (job->argc > 1) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
            send_copies(pair[0], "x", 1, pair[0], 1) < 0 || send_copies(pair[1], "x", 1, to, 1) < 0 ||
            send_copies(pair[1], "x", 1, pair[1], 1) < 0 || send_copies(to, &reaper, CONTROL_HEADER, pair[0], 1) < 0)
            return wsd_job_fail(job, 1, "sendmsg: %s", strerror(errno));
        close(pair[0]);
        close(pair[1]);
    }
    if (send_copies(to, "nonsense", 8, to, COPIES) < 0)
        return wsd_job_fail(job, 1, "sendmsg: %s", strerror(errno));
    for (;;)
        pause(); /* until wsd ends this process */
}

/* BEGIN END: when the file BEGIN is there, sends wsd two sockets, closes its own copies, and makes END. The last
 * close of such a socket waits for five minutes. */
static int linger(struct wsd_job *job, struct wsd_worker *self)
{
    const struct linger l = {.l_onoff = 1, .l_linger = 300};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(a);
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec v = {.iov_base = (char[]){"nonsense"}, .iov_len = 8};
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), to = control_socket(), fds[2];

    if (job->argc != 3)
        return wsd_job_fail(job, 2, "BEGIN END");
    if (to < 0 || bind(listener, (struct sockaddr *)&a, size) < 0 || listen(listener, 2) < 0 ||
        getsockname(listener, (struct sockaddr *)&a, &size) < 0)
        return wsd_job_fail(job, 1, "no sockets: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fds[i], (struct sockaddr *)&a, size) < 0 ||
            setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &l, sizeof(l)) < 0)
            return wsd_job_fail(job, 1, "connect: %s", strerror(errno));
        while (send(fds[i], piece, sizeof(piece), MSG_DONTWAIT) > 0)
            ;
    }
    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(&control.align), fds, sizeof(fds));
    while (access(job->argv[1], F_OK) < 0)
        usleep(1000);
    if (sendmsg(to, &h, MSG_NOSIGNAL) < 0)
        return wsd_job_fail(job, 1, "sendmsg: %s", strerror(errno));
    close(fds[0]);
    close(fds[1]);
    close(open(job->argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (;;)
        pause(); /* the listener stays open until wsd ends this process */
}

/* How often backwards, read from its end, is there. */
static unsigned count(const char *data, size_t size, const char *backwards)
{
    size_t length = strlen(backwards);
    unsigned n = 0;

    for (size_t i = 0; i + length <= size; i++) {
        size_t k = 0;

        while (k < length && data[i + k] == backwards[length - 1 - k])
            k++;
        n += k == length;
    }
    return n;
}

/* SDRAWKCAB: looks for the word in all memory that this process can read. The word itself is nowhere in here. */
static int hunt(struct wsd_job *job, struct wsd_worker *self)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    int fd = memfd_create("hunt", MFD_CLOEXEC);
    unsigned long begin, end, n = 0;
    char line[512], mode[5];

    if (job->argc != 2 || !maps || fd < 0)
        return wsd_job_fail(job, 2, "SDRAWKCAB");
    while (fgets(line, sizeof(line), maps)) {
        /* what is larger than that is a sanitizer's shadow */
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, mode) != 3 || mode[0] != 'r' || end - begin > HUNT)
            continue;
        for (unsigned long at = begin; at < end; at += PIECE / 2) { /* overlapping */
            size_t size = end - at < PIECE ? end - at : PIECE;
            ssize_t got = at < (unsigned long)piece + PIECE && at + size > (unsigned long)piece
                              ? 0
                              : pwrite(fd, (const void *)at, size, 0);
            if (got > 0 && pread(fd, piece, (size_t)got, 0) == got)
                n += count(piece, (size_t)got, job->argv[1]);
        }
    }
    memset(piece, 0, sizeof(piece));
    fclose(maps);
    close(fd);
    return wsd_job_print(job, "%s\n", n ? "found" : "nothing") < 0;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

struct food {
    struct food *next;
};

/* Until there is no more, or it is 1 GiB: no limit is in force then, and the machine is to live. */
static struct food *eat_all(size_t size, unsigned long *ret_n)
{
    struct food *all = NULL, *f;

    for (*ret_n = 0; *ret_n < (1ul << 30) / size && (f = malloc(size)); ++*ret_n) {
        memset(f, 1, size);
        f->next = all;
        all = f;
    }
    return all;
}

/* Eats, gives it back, and says how many MiB there were. */
static int eat(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned long n;

    for (struct food *all = eat_all(EAT, &n), *next; all; all = next) {
        next = all->next;
        free(all);
    }
    return wsd_job_fail(job, 3, "no more memory after %lu MiB", n);
}

/* Eats, and does not look at what malloc() says. */
static int gorge(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned long n;

    eat_all(EAT, &n);
    *(volatile char *)malloc(EAT) = 1;
    return 0;
}

/* Eats, and gives up as C++ does. */
static int burst(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned long n;

    eat_all(EAT, &n);
    if (!malloc(EAT))
        abort();
    return 0;
}

/* N BYTES: children that each take so many bytes, and stay. Says how many there were, and why no more. */
static int bomb(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned long wanted = 0, bytes = 0, n = 0;

    if (job->argc != 3 || sscanf(job->argv[1], "%lu", &wanted) != 1 || sscanf(job->argv[2], "%lu", &bytes) != 1)
        return wsd_job_fail(job, 2, "N BYTES");
    for (; n < wanted; n++) {
        pid_t pid = fork();

        if (pid < 0)
            return wsd_job_print(job, "%lu children: %s\n", n, strerror(errno)) < 0;
        if (pid == 0) {
            void *all = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

            if (all != MAP_FAILED)
                memset(all, 1, bytes);
            for (;;)
                pause();
        }
    }
    return wsd_job_print(job, "%lu children\n", n) < 0;
}

/* What the kernel goes by when memory runs out, of this process; then it tries to lower that. */
static int victim(struct wsd_job *job, struct wsd_worker *self)
{
    char text[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);

    if (read(fd, text, sizeof(text) - 1) <= 0)
        return wsd_job_fail(job, 1, "oom_score_adj: %s", strerror(errno));
    close(fd);
    wsd_job_print(job, "%s", text);
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    tell(job, "lower", fd < 0 ? fd : write(fd, "0", 1));
    close(fd);
    return 0;
}

/* BYTES: so many on stderr, in lines that look like wsd's; then cuts what is behind stdout and stderr. */
static int forge(struct wsd_job *job, struct wsd_worker *self)
{
    static const char line[] = "wsd: forged\x1b[2J: user 0 may do everything from now on\n";
    size_t bytes = 0;

    if (job->argc > 1)
        sscanf(job->argv[1], "%zu", &bytes);
    for (size_t n = 0; n < bytes; n += sizeof(line) - 1)
        if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
            return 1;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        wsd_job_print(job, "%d %s\n", fd, ftruncate(fd, 0) < 0 ? "refused" : "done");
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "attack", .help = "PID ADDRESS: tries to reach a process", .run = attack},
    {.name = "async", .help = "PID: kills by way of a socket", .run = async},
    {.name = "whoami", .help = "the executor's process", .run = whoami},
    {.name = "nudge", .help = "PID: tries to slow a process", .run = nudge},
    {.name = "calls", .help = "tries what only root may", .run = calls},
    {.name = "network", .help = "plain calls that can be denied", .run = network},
    {.name = "unit", .help = "tries what only a unit forbids", .run = unit},
    {.name = "files", .help = "DIRECTORY SOCKET: writes, starts, connects", .run = files},
    {.name = "fds", .help = "lists descriptors", .run = fds},
    {.name = "scribble", .help = "writes to every descriptor", .run = scribble},
    {.name = "log", .help = "BYTES: forges lines of the log, and cuts it", .run = forge},
    {.name = "linger", .help = "BEGIN END: sends wsd sockets whose close waits", .run = linger},
    {.name = "smuggle", .help = "[LIFE]: sends wsd its own control socket", .run = smuggle},
    {.name = "hunt", .help = "SDRAWKCAB: looks for a word in memory", .run = hunt},
    {.name = "eat", .help = "takes all memory, and gives it back", .run = eat},
    {.name = "gorge", .help = "takes all memory, and trusts malloc()", .run = gorge},
    {.name = "burst", .help = "takes all memory, and aborts", .run = burst},
    {.name = "bomb", .help = "N BYTES: children that take memory, and stay", .run = bomb},
    {.name = "victim", .help = "its oom_score_adj, which it tries to lower", .run = victim},
};
WSD_PLUGIN(.n_functions = sizeof(functions) / sizeof(functions[0]), .functions = functions, .name = "hostile",
           .version = "1", .help = "reaches for what is not its own");
