/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.c: preloaded into wsd (LD_PRELOAD), makes calls of libc fail now and then, as on a machine that has run out
 * of a resource. Executors do not get it: wsd hands LD_PRELOAD to no process.
 *
 *     FAULTS=KIND[,KIND...]   memory       malloc, calloc, realloc, aligned_alloc and its like, mmap, epoll_ctl: ENOMEM
 *                             descriptors  accept4, socketpair, pipe2, memfd_create, eventfd, pidfd_open,
 *                                          fcntl(F_DUPFD): EMFILE, ENFILE; sendmsg of one: ETOOMANYREFS
 *                             space        memfd_create, ftruncate, write and pwrite to files, mmap: ENOSPC, ENOMEM
 *                             spawn        posix_spawn, the first and then each N-th: EAGAIN, ENOMEM; fork: EAGAIN
 *                             short        send, recvmsg, read, write, epoll_wait: EINTR, or a part only
 *                             signals      a signal each millisecond, with a handler that does nothing
 *                             timers       event_add with a time: as where libevent gets no memory
 *                             texts        strndup: ENOMEM
 *                             copies       strdup: ENOMEM
 *                             accounts     the user database (getpwnam, getpwnam_r, getpwuid_r, getgrnam_r): EIO
 *                             silence      these do not come back before the faults are over
 *                             membership   getgrouplist: EIO, and the user's own group only
 *                             clock        CLOCK_REALTIME jumps a year forward and back
 *     FAULTS_RATE=N           one call in about N fails
 *     FAULTS_SEED=N           the same random numbers again (as far as the calls are the same)
 *     FAULTS_NTH=N            not at random: the N-th call fails and no other; with N+ each one from there on; 0: none
 *     FAULTS_ALONE=1          what this process executes has no faults
 *     FAULTS_FILE=PATH        of 24 bytes: while the first is '1' calls fail; the next 8 count those that did, the next
 *                             8 with FAULTS_NTH all that could have. Of 40: the next 8 say which is the N-th, instead
 *                             of FAULTS_NTH, and the last 8 how many fail, it and those behind it */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define YEAR 31557600

enum {
    MEMORY = 1,
    DESCRIPTORS = 2,
    SPACE = 4,
    SPAWN = 8,
    SHORT = 16,
    SIGNALS = 32,
    CLOCK = 64,
    TIMERS = 128,
    TEXTS = 256,
    ACCOUNTS = 512,
    SILENCE = 1024,
    MEMBERSHIP = 2048,
    COPIES = 4096
};

static unsigned kinds;
static uint64_t rate = 100;
static _Atomic uint64_t state;
static struct faults_file {
    _Atomic char on;
    char unused[7];
    _Atomic uint64_t n;
    _Atomic uint64_t seen;
    _Atomic uint64_t nth, span; /* nth 0: FAULTS_NTH */
} nowhere, *file = &nowhere;
static bool counted, onwards;
static uint64_t nth;

static uint64_t dice(uint64_t n)
{
    /* splitmix64 (Steele, Lea, Flood 2014): a step is an addition, so threads may share it */
    uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % n;
}

/* Whether this call is one of those that fail. */
static bool hits(void)
{
    if (!counted)
        return dice(rate) == 0;

    uint64_t n = atomic_fetch_add_explicit(&file->seen, 1, memory_order_relaxed) + 1;
    uint64_t first = atomic_load_explicit(&file->nth, memory_order_relaxed);

    if (first)
        return n >= first && n - first < atomic_load_explicit(&file->span, memory_order_relaxed);

    return nth && (n == nth || (onwards && n > nth));
}

static bool strikes(unsigned which)
{
    if (!(kinds & which) || atomic_load_explicit(&file->on, memory_order_relaxed) != '1' || !hits())
        return false;
    atomic_fetch_add_explicit(&file->n, 1, memory_order_relaxed);
    return true;
}

#define REAL(function)                                                                                                 \
    ({                                                                                                                 \
        static __typeof__(function) *real_;                                                                            \
        if (!real_)                                                                                                    \
            *(void **)(&real_) = dlsym(RTLD_NEXT, #function);                                                          \
        real_;                                                                                                         \
    })

static void on_alarm(int signal)
{
}

__attribute__((constructor)) static void begin(void)
{
    static const char *const names[] = {"memory",  "descriptors", "space",  "spawn", "short",
                                        "signals", "clock",       "timers", "texts", "accounts",
                                        "silence", "membership",  "copies"};
    const char *wanted = getenv("FAULTS"), *path = getenv("FAULTS_FILE"), *number;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    for (size_t i = 0; wanted && i < sizeof(names) / sizeof(*names); i++)
        if (strstr(wanted, names[i]))
            kinds |= 1u << i;
    if ((number = getenv("FAULTS_RATE")) && atoll(number) > 0)
        rate = (uint64_t)atoll(number);
    if ((number = getenv("FAULTS_SEED")))
        state = (uint64_t)atoll(number) * 0xd1342543de82ef95u;
    if ((number = getenv("FAULTS_NTH"))) {
        char *end;

        counted = true;
        nth = strtoull(number, &end, 10);
        onwards = *end == '+';
    }
    if (getenv("FAULTS_ALONE"))
        unsetenv("LD_PRELOAD");
    if (fd >= 0) {
        struct faults_file *at =
            (void *)syscall(SYS_mmap, NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        /* glibc 2.36 aborts where it has no memory to read nsswitch.conf */
        if (at != MAP_FAILED && at->on == '1')
            (void)getprotobyname("ip");
        if (at != MAP_FAILED)
            file = at;
        close(fd);
    }
    if (kinds & SIGNALS) {
        struct sigaction a = {.sa_handler = on_alarm}; /* no SA_RESTART */
        struct itimerval t = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};

        sigaction(SIGALRM, &a, NULL);
        setitimer(ITIMER_REAL, &t, NULL);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static bool no_memory(void)
{
    if (!strikes(MEMORY))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return no_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return no_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return no_memory() ? NULL : __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    return no_memory() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
    void *at = memalign(alignment, size);

    if (at)
        *ret = at;
    return at ? 0 : ENOMEM;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (strikes(MEMORY | SPACE)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

char *strdup(const char *text)
{
    if (strikes(COPIES)) {
        errno = ENOMEM;
        return NULL;
    }
    return REAL(strdup)(text);
}

char *strndup(const char *text, size_t n)
{
    if (strikes(TEXTS)) {
        errno = ENOMEM;
        return NULL;
    }
    return REAL(strndup)(text, n);
}

struct event;
int event_add(struct event *event, const struct timeval *timeout);

int event_add(struct event *event, const struct timeval *timeout)
{
    return timeout && strikes(TIMERS) ? -1 : REAL(event_add)(event, timeout);
}

/* --- the user database -------------------------------------------------------------------------------------------- */

/* The errno of a database that cannot be asked, or 0. */
static int no_accounts(void)
{
    while (strikes(SILENCE))
        usleep(1000);
    return strikes(ACCOUNTS) ? EIO : 0;
}

struct passwd *getpwnam(const char *name)
{
    errno = no_accounts();
    return errno ? NULL : REAL(getpwnam)(name);
}

int getpwnam_r(const char *name, struct passwd *entry, char *room, size_t size, struct passwd **ret)
{
    int r = no_accounts();

    *ret = NULL;
    return r ? r : REAL(getpwnam_r)(name, entry, room, size, ret);
}

int getpwuid_r(uid_t uid, struct passwd *entry, char *room, size_t size, struct passwd **ret)
{
    int r = no_accounts();

    *ret = NULL;
    return r ? r : REAL(getpwuid_r)(uid, entry, room, size, ret);
}

int getgrnam_r(const char *name, struct group *entry, char *room, size_t size, struct group **ret)
{
    int r = no_accounts();

    *ret = NULL;
    return r ? r : REAL(getgrnam_r)(name, entry, room, size, ret);
}

/* That of libc does not fail either: it gives what it could read. */
int getgrouplist(const char *name, gid_t gid, gid_t *groups, int *n)
{
    if (!strikes(MEMBERSHIP))
        return REAL(getgrouplist)(name, gid, groups, n);
    groups[0] = gid;
    *n = 1;
    errno = EIO;
    return 1;
}

/* --- descriptors and space ---------------------------------------------------------------------------------------- */

static bool no_descriptor(void)
{
    if (!strikes(DESCRIPTORS))
        return false;
    errno = dice(2) ? EMFILE : ENFILE;
    return true;
}

static bool no_space(void)
{
    if (!strikes(SPACE))
        return false;
    errno = dice(2) ? ENOSPC : ENOMEM;
    return true;
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    static const int wrong[] = {EINTR, ECONNABORTED, ENOBUFS, ENOMEM};

    if (no_descriptor())
        return -1;
    if (strikes(SHORT)) {
        errno = wrong[dice(sizeof(wrong) / sizeof(*wrong))];
        return -1;
    }
    return REAL(accept4)(fd, address, size, flags);
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
    return no_descriptor() ? -1 : REAL(socketpair)(domain, type, protocol, pair);
}

int pipe2(int pair[2], int flags)
{
    return no_descriptor() ? -1 : REAL(pipe2)(pair, flags);
}

int memfd_create(const char *text, unsigned flags)
{
    return no_descriptor() || no_space() ? -1 : REAL(memfd_create)(text, flags);
}

int eventfd(unsigned value, int flags)
{
    return no_descriptor() ? -1 : REAL(eventfd)(value, flags);
}

int pidfd_open(pid_t pid, unsigned flags)
{
    return no_descriptor() ? -1 : REAL(pidfd_open)(pid, flags);
}

/* So many are on their way, sent by whomever of this uid, that no more are let in. */
ssize_t sendmsg(int fd, const struct msghdr *h, int flags)
{
    if (h->msg_controllen && strikes(DESCRIPTORS)) {
        errno = ETOOMANYREFS;
        return -1;
    }
    return REAL(sendmsg)(fd, h, flags);
}

/* With _FILE_OFFSET_BITS=64, as wsd is built, the names of these are fcntl64, mmap64, ... */
static int fcntl_any(int fd, int command, void *argument)
{
    if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && no_descriptor())
        return -1;
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
    va_list args;

    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    return fcntl_any(fd, command, argument);
}

int ftruncate(int fd, off_t size)
{
    return no_space() ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (no_space())
        return -1;
    return syscall(SYS_pwrite64, fd, data, size > 1 && strikes(SHORT) ? 1 + dice(size - 1) : size, offset);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                char *const argv[], char *const envp[])
{
    static _Atomic uint64_t n;

    /* there are few of these: the first one fails, too */
    if (kinds & SPAWN && file->on == '1' && atomic_fetch_add(&n, 1) % rate == 0) {
        atomic_fetch_add(&file->n, 1);
        return dice(2) ? EAGAIN : ENOMEM;
    }
    return REAL(posix_spawn)(pid, path, actions, attr, argv, envp);
}

pid_t fork(void)
{
    if (strikes(SPAWN)) {
        errno = EAGAIN;
        return -1;
    }
    return REAL(fork)();
}

/* --- interrupted, and in parts ------------------------------------------------------------------------------------ */

static bool interrupted(void)
{
    if (!strikes(SHORT))
        return false;
    errno = EINTR;
    return true;
}

/* Only of a stream a part may come: of a packet, or an eventfd, never. */
static bool is_stream(int fd)
{
    socklen_t size = sizeof(int);
    int type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    if (interrupted())
        return -1;
    return REAL(send)(fd, data, size > 1 && strikes(SHORT) ? 1 + dice(size - 1) : size, flags);
}

ssize_t recvmsg(int fd, struct msghdr *h, int flags)
{
    struct iovec part;

    if (interrupted())
        return -1;
    if (h->msg_iovlen != 1 || h->msg_iov->iov_len < 2 || !strikes(SHORT) || !is_stream(fd))
        return REAL(recvmsg)(fd, h, flags);
    struct msghdr shorter = *h;
    part = *h->msg_iov;
    part.iov_len = 1 + dice(dice(2) ? 16 : part.iov_len - 1);
    if (part.iov_len > h->msg_iov->iov_len)
        part.iov_len = h->msg_iov->iov_len;
    shorter.msg_iov = &part;
    ssize_t n = REAL(recvmsg)(fd, &shorter, flags);
    h->msg_controllen = shorter.msg_controllen;
    h->msg_flags = shorter.msg_flags;
    return n;
}

ssize_t read(int fd, void *data, size_t size)
{
    return interrupted() ? -1 : syscall(SYS_read, fd, data, size);
}

static bool is_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

ssize_t write(int fd, const void *data, size_t size)
{
    if (fd > 2 && (interrupted() || (kinds & SPACE && is_file(fd) && no_space())))
        return -1;
    return syscall(SYS_write, fd, data,
                   size > 1 && fd > 2 && kinds & SHORT && is_file(fd) && strikes(SHORT) ? 1 + dice(size - 1) : size);
}

int epoll_ctl(int fd, int what, int of, struct epoll_event *event)
{
    return what == EPOLL_CTL_ADD && no_memory() ? -1 : REAL(epoll_ctl)(fd, what, of, event);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
    return interrupted() ? -1 : REAL(epoll_wait)(fd, events, n, timeout);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

int clock_gettime(clockid_t id, struct timespec *t)
{
    static _Atomic long shift;
    int r = REAL(clock_gettime)(id, t);

    if (id != CLOCK_REALTIME)
        return r;
    if (strikes(CLOCK))
        shift = (long)dice(3) * YEAR - YEAR;
    if (atomic_load_explicit(&file->on, memory_order_relaxed) == '1')
        t->tv_sec += shift;
    return r;
}
