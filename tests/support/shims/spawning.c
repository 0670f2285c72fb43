/* SPDX-License-Identifier: Apache-2.0
 *
 * spawning.c: starts wsd-spawn as wsd does, and says to it what wsd would never say: spawning WSD-SPAWN UID. As root.
 * It is its own executor, which does nothing but wait. Exits 0 where the helper has refused all that is wrong, has done
 * what is right, holds no descriptor of others, and leaves nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "spawner/packet.h"

#define FIRST_ID 1000u
#define NOISE    20000
#define FDS_MOST 16u

static int helper_socket = -1, null_fd = -1;
static pid_t helper;
static uint64_t state = 88172645463325252u;

static void __attribute__((noreturn, format(printf, 1, 2))) fails(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    if (helper > 0)
        kill(helper, SIGKILL);
    exit(1);
}

static uint64_t chance(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void send_bytes(const void *data, size_t size, unsigned n_fds)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(FDS_MOST * sizeof(int))];
    } ancillary = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    int fds[FDS_MOST];

    for (unsigned i = 0; i < n_fds; i++)
        fds[i] = null_fd;
    if (n_fds) {
        m.msg_control = &ancillary;
        m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        ancillary.header.cmsg_level = SOL_SOCKET;
        ancillary.header.cmsg_type = SCM_RIGHTS;
        ancillary.header.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(&ancillary.header), fds, n_fds * sizeof(int));
    }
    if (sendmsg(helper_socket, &m, MSG_NOSIGNAL) < 0)
        fails("the helper is gone: %s", strerror(errno));
}

static bool receive(struct spawn_reply *ret, int *ret_fd, int timeout)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary;
    struct iovec iov = {.iov_base = ret, .iov_len = sizeof(*ret)};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    struct pollfd p = {.fd = helper_socket, .events = POLLIN};

    *ret_fd = -1;
    if (poll(&p, 1, timeout) == 0)
        return false;
    if (recvmsg(helper_socket, &m, MSG_CMSG_CLOEXEC) != sizeof(*ret))
        fails("the helper is gone, or answers nonsense");
    if (CMSG_FIRSTHDR(&m))
        memcpy(ret_fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
    return true;
}

static struct spawn_request right(uint32_t uid, uint64_t serial)
{
    return (struct spawn_request){
        .kind = SPAWN_START, .serial = serial, .workers = 1, .uid = uid, .gid = uid, .n_groups = 1, .groups = {uid}};
}

static void refuses(const char *what, const struct spawn_request *q, unsigned n_fds, uint32_t error)
{
    struct spawn_reply a;
    int fd;

    send_bytes(q, sizeof(*q), n_fds);
    if (!receive(&a, &fd, 20000))
        fails("%s: no answer", what);
    if (a.kind != SPAWN_STARTED || a.serial != q->serial || a.error != error || fd >= 0 || a.pid)
        fails("%s: kind %u, error %u where %u was expected, pid %d", what, a.kind, a.error, error, a.pid);
}

static void refusals(uint32_t uid)
{
    struct spawn_request q;

#define WRONG(what, n_fds, error, ...)                                                                                 \
    do {                                                                                                               \
        q = right(uid, 7);                                                                                             \
        __VA_ARGS__;                                                                                                   \
        refuses(what, &q, n_fds, error);                                                                               \
    } while (0)
    WRONG("root", SPAWN_FDS, EPERM, q.uid = 0);
    WRONG("a user of the system", SPAWN_FDS, EPERM, q.uid = FIRST_ID - 1);
    WRONG("no user", SPAWN_FDS, EPERM, q.uid = UINT32_MAX);
    WRONG("root's group", SPAWN_FDS, EPERM, q.gid = 0);
    WRONG("a group of the system", SPAWN_FDS, EPERM, q.gid = 42);
    WRONG("no group", SPAWN_FDS, EPERM, q.gid = UINT32_MAX);
    WRONG("root's group beside", SPAWN_FDS, EPERM, q.n_groups = 2);
    WRONG("a group beyond the last", SPAWN_FDS, EINVAL, q.groups[SPAWN_GROUPS_MAX - 1] = uid);
    WRONG("too many groups", SPAWN_FDS, EINVAL, q.n_groups = SPAWN_GROUPS_MAX + 1);
    WRONG("no workers", SPAWN_FDS, EINVAL, q.workers = 0);
    WRONG("too many workers", SPAWN_FDS, EINVAL, q.workers = SPAWN_WORKERS_MAX + 1);
    WRONG("an unknown flag", SPAWN_FDS, EINVAL, q.flags = 2);
    WRONG("a descriptor too few", SPAWN_FDS - 1, EINVAL, );
    WRONG("a descriptor too many", SPAWN_FDS + 1, EINVAL, );
    WRONG("many too many", FDS_MOST, EINVAL, );
    WRONG("no cgroup", SPAWN_FDS, EINVAL, q.flags = SPAWN_CGROUP);
}

/* None of it is answered, or harms. */
static void noise(uint32_t uid)
{
    static char bytes[2 * sizeof(struct spawn_request)];
    struct spawn_request q;

    for (int i = 0; i < NOISE; i++) {
        size_t size = 1 + chance() % sizeof(bytes);

        q = right(uid, chance() | 1);
        switch (chance() % 4) {
        case 0:
            for (size_t at = 0; at < size; at++)
                bytes[at] = (char)chance();
            bytes[0] = 100; /* no kind */
            send_bytes(bytes, size, (unsigned)(chance() % FDS_MOST));
            break;
        case 1: /* cut off, or longer */
            memcpy(bytes, &q, sizeof(q));
            send_bytes(bytes, size == sizeof(q) ? size - 1 : size, SPAWN_FDS);
            break;
        case 2:
            q.serial = 0;
            send_bytes(&q, sizeof(q), SPAWN_FDS);
            break;
        case 3: /* a kill of an unknown serial, with a uid or a descriptor that it must not have */
            q = (struct spawn_request){
                .kind = SPAWN_KILL, .serial = 1000 + chance() % 1000, .uid = chance() % 2 ? 0 : uid};
            send_bytes(&q, sizeof(q), chance() % 2 ? 0 : 1);
            break;
        }
    }
}

static pid_t start(uint32_t uid, uint64_t serial, int *ret_pidfd)
{
    const struct spawn_request q = right(uid, serial);
    struct spawn_reply a;

    send_bytes(&q, sizeof(q), SPAWN_FDS);
    if (!receive(&a, ret_pidfd, 20000) || a.kind != SPAWN_STARTED || a.error || a.pid <= 0 || *ret_pidfd < 0)
        fails("what is right is refused: %s", strerror((int)a.error));
    return a.pid;
}

static void ended(int pidfd, const char *what)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    if (poll(&p, 1, 20000) != 1)
        fails("%s lives on", what);
}

/* Of packets it closes them when it has answered: one that has none shows that it is done with those before. */
static unsigned descriptors_of(pid_t pid)
{
    const struct spawn_request q = {.kind = SPAWN_START, .serial = 5};
    char path[32];
    unsigned n = 0;

    refuses("nothing", &q, 0, EINVAL);
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    if (!d)
        fails("%s: %s", path, strerror(errno));
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void start_helper(const char *file)
{
    int pair[2], self = open("/proc/self/exe", O_RDONLY);

    if (self < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        fails("socketpair: %s", strerror(errno));
    helper_socket = pair[0];
    helper = fork();
    if (helper == 0) {
        int a = fcntl(pair[1], F_DUPFD_CLOEXEC, 32), b = fcntl(self, F_DUPFD_CLOEXEC, 32);

        dup2(a, SPAWN_FD_SOCKET);
        dup2(b, SPAWN_FD_EXECUTOR);
        execl(file, "wsd-spawn", "1000", "/x", "dirs", "3", "free", "65536", "writable=/", (char *)NULL);
        _exit(126);
    }
    close(pair[1]);
    close(self);
}

/* What executors get from their helper. */
static int executor(int argc, char **argv)
{
    bool is_right = argc == 8 && strcmp(argv[1], "1") == 0 && strcmp(argv[2], "/x") == 0 &&
                    strcmp(argv[7], "memory=0,writable=/") == 0 && fcntl(6, F_GETFD) >= 0;

    while (is_right)
        pause();
    return 64;
}

int main(int argc, char **argv)
{
    struct spawn_reply a;
    int first, second, fd, none;

    if (strcmp(argv[0], "wsd-executor") == 0)
        return executor(argc, argv);
    if (argc != 3)
        return 64;
    uint32_t uid = (uint32_t)strtoul(argv[2], NULL, 10);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    start_helper(argv[1]);
    struct spawn_request q = right(uid, 1);
    start(uid, 1, &first);
    unsigned descriptors = descriptors_of(helper);
    refuses("a serial that is there", &q, SPAWN_FDS, EEXIST);
    refusals(uid);
    noise(uid);
    refusals(uid); /* nothing was answered meanwhile: these answers are the next */
    if (descriptors_of(helper) != descriptors)
        fails("the helper keeps %d descriptors of others", (int)(descriptors_of(helper) - descriptors));
    start(uid, 2, &second);
    q = (struct spawn_request){.kind = SPAWN_KILL, .serial = 1};
    send_bytes(&q, sizeof(q), 0);
    ended(first, "who was to be killed");
    if (!receive(&a, &none, 20000) || a.kind != SPAWN_EXITED || a.serial != 1 || a.code != CLD_KILLED ||
        a.status != SIGKILL)
        fails("its end is not told");
    fd = pidfd_open(helper, 0);
    close(helper_socket); /* wsd is gone */
    ended(fd, "a helper without wsd");
    ended(second, "an executor without a helper");
    return waitpid(helper, NULL, 0) == helper ? 0 : 1;
}
