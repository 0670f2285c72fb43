/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c: tests that the sandbox holds: finds a call that a kernel, a tracer or a container has swallowed.
 * Owns nothing. [main, before threads]
 * Keeps: each part is tested by something that would succeed, or fail in another way, without it.
 * Does not test what the administrator denies in addition: whether a call is harmless depends on its arguments. */
#include "executor/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "executor/landlock.h"

#define STATUS_STEP 8192u

/* All of it, which is the caller's: a user may be in 65,536 groups, and they stand before what is looked for. NULL with
 * errno. */
static char *read_status(void)
{
    _cleanup_(close_fdp) int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    _cleanup_(freep) char *text = NULL;
    size_t size = 0;

    for (ssize_t n = 1; n > 0; size += (size_t)n) {
        char *more = realloc(text, size + STATUS_STEP + 1);

        if (!more)
            return NULL;
        text = more;
        n = fd < 0 ? -1 : read(fd, text + size, STATUS_STEP);
        if (n < 0)
            return NULL;
    }
    text[size] = 0;
    return TAKE(text);
}

/* The value of a field, a number in this base, is this one. */
static bool field_is(const char *status, const char *field, int base, uint64_t wanted)
{
    const char *at = strstr(status, field);

    return at && strtoull(at + strlen(field), NULL, base) == wanted;
}

/* Reads a part of this process by a call that is refused for any target; without a filter it succeeds. */
static bool filter_holds(void)
{
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};

    errno = 0;
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != -1 || errno != EPERM)
        return false;
    errno = 0;
    return syscall(SYS_kcmp, getpid(), getpid(), 1 /* KCMP_VM */, 0, 0) == -1 && errno == EPERM;
}

/* Without a filter the missing descriptor is what is wrong with it. */
static bool descriptors_have_no_owner(void)
{
    errno = 0;
    if (fcntl(-1, F_SETOWN, getpid()) != -1 || errno != EPERM)
        return false;
    errno = 0;
    return fcntl(-1, F_SETSIG, SIGIO) == -1 && errno == EPERM;
}

/* Without a filter it is the arguments that are wrong. */
static bool nothing_stays(void)
{
    errno = 0;
    if (shmget(IPC_PRIVATE, 0, 0) != -1 || errno != EPERM)
        return false;
    errno = 0;
    if (semget(IPC_PRIVATE, 0, 0) != -1 || errno != EPERM)
        return false;
    errno = 0;
    if (msgsnd(-1, &(const long){1}, 0, IPC_NOWAIT) != -1 || errno != EPERM) /* the type of an empty message */
        return false;
    errno = 0;
    return syscall(SYS_mq_open, NULL, 0, 0, NULL) == -1 && errno == EPERM;
}

static bool memory_is_closed(pid_t witness)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d/mem", witness);
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0;
}

static bool signals_stay_inside(const struct sandbox *s, int landlock, pid_t witness)
{
    bool kept = landlock_keeps_signals(landlock) || !s->children;

    return kill(getpid(), 0) == 0 && (!kept || (kill(witness, 0) == -1 && errno == EPERM));
}

/* --- the process to test on --------------------------------------------------------------------------------------- */

_Noreturn static void witness_runs(int fd)
{
    char byte = 0;

    /* it is to be open where the sandbox does not close it; so it keeps nothing that is worth looking for */
    if (dup2(fd, STDERR_FILENO + 1) < 0 || close_range(STDERR_FILENO + 2, ~0u, 0) < 0)
        _exit(EXIT_FAILURE);
    fd = STDERR_FILENO + 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 1);
    if (write(fd, &byte, 1) == 1)
        while (read(fd, &byte, 1) < 0 && errno == EINTR)
            ;
    _exit(EXIT_SUCCESS);
}

int witness_begin(struct witness *ret)
{
    int pair[2];
    char byte;

    *ret = (struct witness){.pid = getppid(), .fd = -1};
    if (kill(ret->pid, 0) == 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ret->pid = fork();
    if (ret->pid == 0)
        witness_runs(pair[1]);
    int r = ret->pid < 0 ? -errno : 0;
    close(pair[1]);
    if (r == 0 && read(pair[0], &byte, 1) != 1)
        r = -EIO;
    ret->fd = pair[0];
    if (r < 0)
        witness_end(ret);
    return r;
}

void witness_end(struct witness *w)
{
    if (w->fd < 0)
        return;
    w->fd = close_fd(w->fd);
    while (w->pid > 0 && waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Nothing can be made where nothing may be written, not even a file without a name. */
static bool writing_is_refused(void)
{
    _cleanup_(close_fdp) int fd = open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

    return fd < 0;
}

const char *verify(const struct sandbox *s, int landlock, pid_t witness)
{
    static const char *const sets[] = {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"};
    _cleanup_(freep) char *status = read_status();

    if (!status)
        return "cannot be looked at: /proc/self/status cannot be read";
    for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
        if (!field_is(status, sets[i], 16, 0))
            return "capabilities: some are still there";
    if (!field_is(status, "NoNewPrivs:", 10, 1))
        return "no_new_privs: is not in force";
    if (prctl(PR_GET_DUMPABLE) != (s->core_size > 0))
        return "dumpable: is not as it was set";
    if (!field_is(status, "Seccomp:", 10, 2) || !filter_holds())
        return "seccomp: the filter is not in force";
    if (!nothing_stays())
        return "seccomp: shared memory and queues that outlive the executor can be made";
    if (!signals_stay_inside(s, landlock, witness) || !descriptors_have_no_owner())
        return "signals: are not kept inside";
    if (landlock && !memory_is_closed(witness))
        return "Landlock: the memory of other processes is open";
    if (landlock && !*s->writable && !writing_is_refused())
        return "Landlock: files can be written";
    return NULL;
}
