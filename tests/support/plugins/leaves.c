/* SPDX-License-Identifier: Apache-2.0
 *
 * leaves.c: test plugin: jobs that leave their thread or process other than they found it, and jobs that tell what they found. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <wsd/plugin.h>
#include <wsd/task.h>

static volatile uintptr_t nowhere = 0x1238;

/* --- what a fault needs --- */

static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

static int handlers(struct wsd_job *job, struct wsd_worker *self)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        signal(faults[i], SIG_DFL);
    return 0;
}

static int mask(struct wsd_job *job, struct wsd_worker *self)
{
    sigset_t all;

    sigfillset(&all);
    return pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static int altstack(struct wsd_job *job, struct wsd_worker *self)
{
    const stack_t none = {.ss_flags = SS_DISABLE};

    return sigaltstack(&none, NULL) < 0;
}

static int segv(struct wsd_job *job, struct wsd_worker *self)
{
    *(volatile uint64_t *)nowhere = 1;
    return 0;
}

__attribute__((noinline)) static int deeper(volatile char *above, int depth)
{
    volatile char here[4096];

    here[0] = *above;
    return depth < 0 ? here[0] : deeper(here, depth + 1) + here[0];
}

static int overflow(struct wsd_job *job, struct wsd_worker *self)
{
    char top = 0;

    return deeper(&top, 0);
}

/* No note is left of this one. */
static int unnoted(struct wsd_job *job, struct wsd_worker *self)
{
    handlers(job, self);
    return segv(job, self);
}

/* Computes for 50 ms, and crashes. */
static int works(struct wsd_job *job, struct wsd_worker *self)
{
    for (clock_t end = clock() + CLOCKS_PER_SEC / 20; clock() < end;)
        ;
    return segv(job, self);
}

/* Computes, whatever it is told. */
static int deaf(struct wsd_job *job, struct wsd_worker *self)
{
    while (nowhere)
        ;
    return 0;
}

/* --- the thread --- */

static int thread_exit(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_exit(NULL);
}

static int cancel(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return 0;
}

WSD_VOID_TASK_2(leaving_child, struct wsd_worker *, parent, atomic_int *, started)
{
    if (self != parent)
        pthread_exit(NULL);
    atomic_store(started, 1);
}

/* Ends the thread of another worker, in a task that it has stolen; needs two workers. */
static int stolen_exit(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_int started = 0;

    WSD_SPAWN(leaving_child, self, &started);
    while (!atomic_load(&started) && !wsd_job_cancelled(job))
        ;
    WSD_SYNC(leaving_child);
    return 0;
}

/* --- the process --- */

static int files(struct wsd_job *job, struct wsd_worker *self)
{
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        ;
    return 0;
}

static int limit(struct wsd_job *job, struct wsd_worker *self)
{
    const struct rlimit few = {4, 4};

    return setrlimit(RLIMIT_NOFILE, &few) < 0;
}

static int space(struct wsd_job *job, struct wsd_worker *self)
{
    const struct rlimit few = {1 << 20, 1 << 20};

    return setrlimit(RLIMIT_AS, &few) < 0;
}

static int new_umask(struct wsd_job *job, struct wsd_worker *self)
{
    umask(0);
    return 0;
}

static int directory(struct wsd_job *job, struct wsd_worker *self)
{
    return chdir("/tmp") < 0;
}

static int nicer(struct wsd_job *job, struct wsd_worker *self)
{
    return setpriority(PRIO_PROCESS, 0, 19) < 0;
}

static int affinity(struct wsd_job *job, struct wsd_worker *self)
{
    cpu_set_t one, all;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return 1;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) < 0;
}

/* What a job finds: descriptors, umask, directory, nice value, CPUs, and the process. */
static int state(struct wsd_job *job, struct wsd_worker *self)
{
    mode_t was = umask(077);
    struct rlimit n = {0}, as = {0};
    cpu_set_t cpus;
    char here[64] = "";

    umask(was);
    getrlimit(RLIMIT_NOFILE, &n);
    getrlimit(RLIMIT_AS, &as);
    sched_getaffinity(0, sizeof(cpus), &cpus);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return wsd_job_print(job, "files=%s limit=%s space=%s umask=%03o directory=%s nice=%d cpus=%d\n", fd >= 0 ? "yes" : "no",
                         n.rlim_cur > 4 ? "high" : "low", as.rlim_cur > 1 << 20 ? "high" : "low", (unsigned)was,
                         getcwd(here, sizeof(here)), getpriority(PRIO_PROCESS, 0), CPU_COUNT(&cpus)) < 0;
}

/* --- words --- */

/* N [WHERE]: so many lines for nobody. */
static int says(struct wsd_job *job, struct wsd_worker *self)
{
    int n = job->argc > 1 ? atoi(job->argv[1]) : 1;

    for (int i = 0; i < n; i++) {
        fprintf(stderr, "line %d of nobody\n", i);
        if (i == 0)
            printf("this one is for stdout\n"), fflush(stdout);
    }
    return 0;
}

/* As the C++ library does it. */
static int last_words(struct wsd_job *job, struct wsd_worker *self)
{
    fprintf(stderr, "terminate called after throwing an instance of 'std::runtime_error'\n  what():  the moon is no cheese\n");
    abort();
}

/* As abort(), and has nothing to say. */
static int silent(struct wsd_job *job, struct wsd_worker *self)
{
    abort();
}

WSD_TASK_1(long, child, int, n)
{
    return n;
}

static int forgets_sync(struct wsd_job *job, struct wsd_worker *self)
{
    WSD_SPAWN(child, 1);
    return 0;
}

/* --- a thread --- */

static atomic_int go_on;

static void *write_on(void *arg)
{
    struct wsd_job *job = arg;

    while (!atomic_load(&go_on))
        usleep(1000);
    for (int i = 0; i < 50; i++) {
        wsd_job_print(job, "not for you\n");
        usleep(1000);
    }
    atomic_store(&go_on, 2);
    return NULL;
}

static int thread(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_t t;

    return pthread_create(&t, NULL, write_on, job) != 0 || pthread_detach(t) != 0;
}

/* Has that thread write, and waits until it has. */
static int listen_to(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_store(&go_on, 1);
    while (atomic_load(&go_on) != 2 && !wsd_job_cancelled(job))
        usleep(1000);
    return wsd_job_print(job, "mine\n") < 0;
}

#define F(text, what) {.name = text, .help = "leaves something, or tells what there is", .run = what}

static const struct wsd_function functions[] = {
    F("handlers", handlers), F("mask", mask),         F("altstack", altstack), F("segv", segv),
    F("overflow", overflow), F("unnoted", unnoted),   F("thread-exit", thread_exit), F("cancel", cancel),
    F("stolen-exit", stolen_exit), F("files", files), F("limit", limit),       F("space", space),
    F("umask", new_umask),   F("directory", directory), F("nice", nicer),      F("affinity", affinity),
    F("works", works), F("deaf", deaf), F("state", state),       F("says", says),         F("last-words", last_words), F("silent", silent),
    F("forgets-sync", forgets_sync), F("thread", thread), F("listen", listen_to),
};
WSD_PLUGIN(.n_functions = sizeof(functions) / sizeof(*functions), .functions = functions, .name = "leaves", .version = "1",
           .help = "leaves its process other than it found it");
