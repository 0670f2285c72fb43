/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.c: finds what jobs have left changed in their thread and in the process.
 * Owns the record of their first state, and the time of the last look. [each function says where]
 * Keeps: while a worker has jobs, what a fault needs is checked once in GUARD_NSEC. After clean looks it is checked
 * less often. Anything else is checked once in SLOW_NSEC. The check comes before the worker sleeps, where half of the
 * time is enough, or else before its next job.
 * wsd hears of a spoilt process once.
 * Does not look while a job runs on the thread. wsd decides what becomes of a spoilt executor. */
#include "executor/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "executor/commands.h"
#include "executor/fault.h"
#include "host/cputime.h"
#include "ring/control.h"

/* A look makes ten system calls. They make a call that comes every 2 ms half as slow again: caches are cold, and the
 * client that was answered may wait for this CPU. So the pause doubles when CLEAN_LOOKS in a row have found nothing. */
#define GUARD_NSEC  1000000u
#define GUARD_STEPS 4u /* from GUARD_NSEC to 16 times as much */
#define CLEAN_LOOKS 16u
#define SLOW_NSEC   50000000u   /* about 40 us */
#define DEAD_NSEC   1000000000u /* how long a child may be dead before its job waits for it */
#define FILES_LEFT  16          /* descriptors: with fewer the process is of no use */
#define FILES_HOLES 128         /* that may have been given back below those that are left open */
#define HELD_LOOKS  3           /* health checks, each after half of executor-answer */
#define NO_UMASK    0x8000
#define MEMORY_LEFT 8  /* with less than one part in so many of its memory the process is of no use */
#define THREADS_MAX 8u /* that jobs may leave before it is tested whether there can be more */

static const struct {
    int resource;
    const char *name;
} limits[] = {
    {RLIMIT_NOFILE, "RLIMIT_NOFILE"}, {RLIMIT_AS, "RLIMIT_AS"},           {RLIMIT_DATA, "RLIMIT_DATA"},
    {RLIMIT_NPROC, "RLIMIT_NPROC"},   {RLIMIT_FSIZE, "RLIMIT_FSIZE"},     {RLIMIT_CPU, "RLIMIT_CPU"},
    {RLIMIT_STACK, "RLIMIT_STACK"},   {RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK"},
};

static struct {
    int control_fd;                           /* [const after init] */
    struct rlimit limits[ARRAY_SIZE(limits)]; /* [const after init] */
    struct stat directory;                    /* [const after init] */
    unsigned umask, n_threads;                /* [const after init] */
    uint32_t (*running)(void *context);       /* [const after init] */
    void *context;                            /* its [const after init] */
    uint64_t memory;                          /* that was free, in bytes; 0: there is no limit [const after init] */
    _Atomic bool ready;                       /* [atomic: release by init, acquire by workers] */
    _Atomic bool told, mended;                /* [atomic: relaxed RMW] */
    _Atomic uint32_t loads;                   /* that are under way [atomic: relaxed] */
    _Atomic uint64_t looked_nsec;             /* at the process [atomic: relaxed RMW] */
    _Atomic pid_t dead_child;                 /* 0: there was none at the last look [atomic: relaxed] */
    _Atomic uint64_t dead_since;              /* [atomic: relaxed] */
} process;

static _Thread_local struct {
    uint64_t looked_nsec, slowly_nsec;
    uint32_t n_clean; /* looks in a row that found nothing */
    bool due;         /* has had jobs since it was looked at */
    int nice;
    cpu_set_t cpus;
} mine __attribute__((tls_model("initial-exec")));

void guard_spoilt(const char *reason)
{
    struct control c;

    if (atomic_exchange_explicit(&process.told, true, memory_order_relaxed))
        return;
    memset(&c, 0, CONTROL_HEADER);
    c.kind = CONTROL_SPOILT;
    c.text_size = (uint32_t)snprintf(c.text, 256, "%s", reason) + 1;
    c.text_size = MIN(c.text_size, 256u);
    (void)control_send(process.control_fd, &c, -1); /* else wsd is gone */
}

/* --- the process -------------------------------------------------------------------------------------------------- */

/* Reads what fits. Returns `text`; "": it cannot be read. */
static const char *read_text(const char *path, char *text, size_t size)
{
    _cleanup_(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;

    text[MAX(n, 0)] = 0;
    return text;
}

static unsigned umask_now(void)
{
    char text[128];
    unsigned mask;

    /* umask(2) tells only by changing it, under the hands of a job that runs elsewhere */
    const char *at = strstr(read_text("/proc/self/status", text, sizeof(text)), "\nUmask:");
    return at && sscanf(at, " Umask: %o", &mask) == 1 ? mask : NO_UMASK;
}

/* Returns how many threads there are, or 0: that is not known. */
static unsigned threads_now(void)
{
    char text[512];
    unsigned n;

    const char *at = strrchr(read_text("/proc/self/stat", text, sizeof(text)), ')');
    return at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u", &n) == 1 ? n
                                                                                                                 : 0;
}

/* How many bytes RLIMIT_DATA leaves. False: it is no limit, or that is not known. */
static bool memory_now(uint64_t *ret)
{
    struct rlimit limit;
    char text[128];
    unsigned long long pages;

    if (getrlimit(RLIMIT_DATA, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        sscanf(read_text("/proc/self/statm", text, sizeof(text)), "%*u %*u %*u %*u %*u %llu", &pages) != 1)
        return false;
    uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    *ret = used < limit.rlim_cur ? limit.rlim_cur - used : 0;
    return true;
}

static bool is_limited(char reason[static 128])
{
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        struct rlimit now, *then = &process.limits[i];

        if (getrlimit((__rlimit_resource_t)limits[i].resource, &now) < 0 ||
            (now.rlim_cur >= then->rlim_cur && now.rlim_max >= then->rlim_max))
            continue;
        snprintf(reason, 128, "a job has lowered %s to %llu", limits[i].name, (unsigned long long)now.rlim_cur);
        return true;
    }
    return false;
}

/* From that number on; the limit where there is none. */
static rlim_t lowest_free(rlim_t from, rlim_t limit)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, (int)from);

    if (fd < 0)
        return limit;
    close(fd);
    return (rlim_t)fd;
}

/* The kernel gives the lowest number that is free. So behind one that is left open all below were in use, but for those
 * of jobs that have ended since. */
static bool lacks_descriptors(char reason[static 128])
{
    struct rlimit now;

    if (getrlimit(RLIMIT_NOFILE, &now) < 0)
        return false;
    rlim_t limit = now.rlim_cur, least = lowest_free(0, limit);
    if (least + FILES_HOLES < limit)
        least = lowest_free(least + FILES_HOLES, limit);
    if (least + FILES_LEFT < limit)
        return false;
    snprintf(reason, 128, "its jobs have left %llu descriptors open, of %llu (RLIMIT_NOFILE)",
             (unsigned long long)least, (unsigned long long)limit);
    return true;
}

static bool is_elsewhere(char reason[static 128])
{
    struct stat now;
    unsigned mask = umask_now();

    if (stat(".", &now) < 0 || now.st_dev != process.directory.st_dev || now.st_ino != process.directory.st_ino)
        snprintf(reason, 128, "a job has changed the working directory");
    else if (mask != process.umask && mask != NO_UMASK)
        snprintf(reason, 128, "a job has changed the umask to %03o", mask);
    else
        return false;
    return true;
}

static bool lacks_memory(char reason[static 128])
{
    uint64_t left;

    if (!memory_now(&left) || left >= process.memory / MEMORY_LEFT)
        return false;
    snprintf(reason, 128, "its jobs have left less than %llu MiB of memory, of %llu ([limits] executor-memory)",
             ((unsigned long long)left >> 20) + 1, (unsigned long long)process.memory >> 20);
    return true;
}

static void *end_at_once(void *arg)
{
    return arg;
}

static bool lacks_threads(char reason[static 128])
{
    pthread_t thread;
    unsigned n = threads_now();

    if (n <= process.n_threads + THREADS_MAX)
        return false;
    int r = pthread_create(&thread, NULL, end_at_once, NULL);
    if (r == 0)
        pthread_join(thread, NULL);
    if (r != EAGAIN)
        return false;
    snprintf(reason, 128,
             "its jobs have left %u threads, and it can have no more ([limits] executor-tasks, RLIMIT_NPROC)",
             n - process.n_threads);
    return true;
}

/* Whether there is a dead child that was not waited for since the last look: a job's child, or one without its own
 * parent. */
static bool has_dead_children(uint64_t now)
{
    siginfo_t info = {0};

    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
        info.si_pid = 0;
    if (info.si_pid != 0 && executor_command_reap(info.si_pid))
        info.si_pid = 0;
    /* relaxed: the looks are SLOW_NSEC apart */
    if (atomic_exchange_explicit(&process.dead_child, info.si_pid, memory_order_relaxed) != info.si_pid)
        atomic_store_explicit(&process.dead_since, now, memory_order_relaxed);
    return info.si_pid != 0 && now - atomic_load_explicit(&process.dead_since, memory_order_relaxed) >= DEAD_NSEC;
}

/* What is in use then is left behind. n_begun: jobs that count as running, and that have done nothing yet. */
static bool is_idle(uint32_t n_begun)
{
    return atomic_load_explicit(&process.loads, memory_order_relaxed) == 0 &&
           process.running(process.context) <= n_begun;
}

/* Whether it is time to look. A look before a sleep delays no job. So it comes early, and a call that wakes the worker
 * rarely finds it due. */
static bool is_time(uint64_t now, uint64_t looked_nsec, uint64_t pause_nsec, bool sleeps)
{
    return now - looked_nsec >= (sleeps ? pause_nsec / 2 : pause_nsec);
}

static void look_at_process(uint64_t now, bool sleeps)
{
    uint32_t n_begun = sleeps ? 0 : 1; /* it has taken a job */
    uint64_t before = atomic_load_explicit(&process.looked_nsec, memory_order_relaxed);
    char reason[128];

    if (!is_time(now, before, SLOW_NSEC, sleeps) || atomic_load_explicit(&process.told, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&process.looked_nsec, &before, now, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    if (has_dead_children(now)) {
        guard_spoilt("its jobs have left processes that have ended, and that nobody waits for");
        return;
    }
    if (is_limited(reason) || lacks_descriptors(reason) || is_elsewhere(reason))
        guard_spoilt(reason);
    else if (is_idle(n_begun) && (lacks_memory(reason) || lacks_threads(reason)))
        guard_spoilt(reason);
}

/* --- a thread ----------------------------------------------------------------------------------------------------- */

static void look_at_thread(void)
{
    cpu_set_t cpus;

    if (getpriority(PRIO_PROCESS, 0) > mine.nice && setpriority(PRIO_PROCESS, 0, mine.nice) < 0)
        guard_spoilt("a job has raised the nice value of its worker");
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0 || CPU_EQUAL(&cpus, &mine.cpus))
        return;
    /* CPUs that a cgroup gave or took are no job's doing: the kernel then refuses, or does nothing */
    (void)sched_setaffinity(0, sizeof(mine.cpus), &mine.cpus);
    (void)sched_getaffinity(0, sizeof(mine.cpus), &mine.cpus);
}

static void mend_thread(void)
{
    bool handlers = atomic_load_explicit(&process.loads, memory_order_relaxed) == 0;
    const char *what = fault_mend(handlers);

    mine.n_clean = what ? 0 : mine.n_clean + 1;
    if (what && !atomic_exchange_explicit(&process.mended, true, memory_order_relaxed))
        log_warning("a job has left %s changed: it is as before; see wsd-plugin(7)", what);
}

void guard_look(bool sleeps)
{
    uint64_t now;

    if (!sleeps && !mine.due) { /* it begins a job */
        mine.due = true;
        return;
    }
    now = cputime_recent_nsec();
    if (!is_time(now, mine.looked_nsec, GUARD_NSEC << MIN(mine.n_clean / CLEAN_LOOKS, GUARD_STEPS), sleeps) ||
        !atomic_load_explicit(&process.ready, memory_order_acquire))
        return;
    mine.looked_nsec = now;
    mine.due = !sleeps;
    mend_thread();
    if (!is_time(now, mine.slowly_nsec, SLOW_NSEC, sleeps))
        return;
    mine.slowly_nsec = now;
    look_at_thread();
    look_at_process(now, sleeps);
}

void guard_retire(void)
{
    if (!atomic_load_explicit(&process.ready, memory_order_acquire))
        return;
    mend_thread();
    look_at_thread();
}

void guard_thread_begin(void)
{
    mine.nice = getpriority(PRIO_PROCESS, 0);
    if (sched_getaffinity(0, sizeof(mine.cpus), &mine.cpus) < 0)
        CPU_ZERO(&mine.cpus);
}

/* A lock that a job has left held keeps every later job from printing. Its owner cannot be told. */
void guard_health(void)
{
    static struct {
        FILE **stream;
        const char *name;
        uint32_t n_held; /* looks in a row [control thread] */
    } streams[] = {{&stdin, "stdin", 0}, {&stdout, "stdout", 0}, {&stderr, "stderr", 0}};
    char reason[128];

    for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
        if (ftrylockfile(*streams[i].stream) == 0) {
            funlockfile(*streams[i].stream);
            streams[i].n_held = 0;
        } else if (++streams[i].n_held == HELD_LOOKS) {
            snprintf(reason, sizeof(reason), "a job holds the lock of %s, or has left it held (flockfile)",
                     streams[i].name);
            guard_spoilt(reason);
        }
    }
}

void guard_load_begin(void)
{
    atomic_fetch_add_explicit(&process.loads, 1, memory_order_relaxed);
}

void guard_load_end(void)
{
    atomic_fetch_sub_explicit(&process.loads, 1, memory_order_relaxed);
    mend_thread();
}

void guard_init(int control_fd, uint32_t (*running)(void *context), void *context)
{
    process.control_fd = control_fd;
    process.running = running;
    process.context = context;
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        (void)getrlimit((__rlimit_resource_t)limits[i].resource, &process.limits[i]);
    (void)stat(".", &process.directory);
    process.umask = umask_now();
    process.n_threads = threads_now();
    (void)memory_now(&process.memory);
    atomic_store_explicit(&process.ready, true, memory_order_release);
}
