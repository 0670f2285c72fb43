/* SPDX-License-Identifier: Apache-2.0
 *
 * crash.c: test plugin: every way to take the process down. Each function has an idempotent twin, NAME-again. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wsd/plugin.h>
#include <wsd/task.h>

/* An address that is not mapped. volatile hides it from the compiler. */
static volatile uintptr_t nowhere = 0x1238;

static int segv(struct wsd_job *job, struct wsd_worker *self)
{
    *(volatile uint64_t *)nowhere = 1;
    return 0;
}

static int on_abort(struct wsd_job *job, struct wsd_worker *self)
{
    abort();
}

static int on_exit_call(struct wsd_job *job, struct wsd_worker *self)
{
    exit(0);
}

/* As exit(), without its handlers. */
static int at_once(struct wsd_job *job, struct wsd_worker *self)
{
    _exit(0);
}

static atomic_int first_is_there = 1;

static void leave(int signal)
{
    syscall(SYS_set_tid_address, &first_is_there); /* the kernel makes it 0 on its way out */
    syscall(SYS_exit, 0);
}

/* The first thread ends, then the one that runs this, and the others stay. */
static int piecemeal(struct wsd_job *job, struct wsd_worker *self)
{
    const struct sigaction action = {.sa_handler = leave};

    sigaction(SIGUSR1, &action, NULL);
    if (tgkill(getpid(), getpid(), SIGUSR1) < 0)
        return wsd_job_fail(job, 1, "the first thread gets no signal");
    while (atomic_load(&first_is_there))
        sched_yield();
    syscall(SYS_exit, 0);
    return 0;
}

/* What a process that the plugin has forked does is none of its job's. */
static int child_exits(struct wsd_job *job, struct wsd_worker *self)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
#ifdef __SANITIZE_ADDRESS__
        _exit(3); /* exit() would look for leaks, with the other threads gone */
#else
        exit(3);
#endif
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
        return wsd_job_fail(job, 1, "the child did not exit as it wanted");
    child = fork();
    if (child == 0)
        abort();
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
        return wsd_job_fail(job, 1, "the child did not die as it wanted");
    return wsd_job_print(job, "alone\n") < 0;
}

/* A page behind the end of a file. */
static int bus(struct wsd_job *job, struct wsd_worker *self)
{
    int fd = memfd_create("short", MFD_CLOEXEC);
    volatile char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd < 0 || page == MAP_FAILED)
        return wsd_job_fail(job, 1, "no page");
    page[0] = 1;
    return 0;
}

static int illegal(struct wsd_job *job, struct wsd_worker *self)
{
    __builtin_trap();
}

static volatile int zero;

/* Not every machine traps the division; a sanitizer would, in its own way. */
__attribute__((no_sanitize("undefined"))) static int divide(struct wsd_job *job, struct wsd_worker *self)
{
    zero = 1 / zero;
    raise(SIGFPE);
    return 0;
}

/* A call to where no code is. */
static int jump(struct wsd_job *job, struct wsd_worker *self)
{
    return ((int (*)(void))nowhere)();
}

/* MIB: makes so much memory resident, then crashes. */
static int fat(struct wsd_job *job, struct wsd_worker *self)
{
    size_t size = (job->argc > 1 ? strtoul(job->argv[1], NULL, 10) : 1) << 20;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (p == MAP_FAILED)
        return wsd_job_fail(job, 1, "no memory");
    return segv(job, self);
}

/* MIB: makes so much memory resident, and forgets it. */
static int leak(struct wsd_job *job, struct wsd_worker *self)
{
    size_t size = (job->argc > 1 ? strtoul(job->argv[1], NULL, 10) : 1) << 20;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    return p == MAP_FAILED ? wsd_job_fail(job, 1, "no memory") : 0;
}

/* No note can be left of this one. */
static int killed(struct wsd_job *job, struct wsd_worker *self)
{
    raise(SIGKILL);
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

/* One frame of half a MiB more than there is left, touched at its lowest end first: this file is built without probes,
 * as others' plugins may be. */
static int large(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_attr_t attr;
    size_t size;
    void *low;

    if (pthread_getattr_np(pthread_self(), &attr) != 0 || pthread_attr_getstack(&attr, &low, &size) != 0)
        return 1;
    pthread_attr_destroy(&attr);
    volatile char *here = __builtin_alloca((size_t)((char *)&low - (char *)low) + (512u << 10));
    here[0] = 1;
    return here[0] - 1;
}

/* A fault above the stack's end is none of its own, however deep. */
__attribute__((noinline)) static int deep_segv(struct wsd_job *job, struct wsd_worker *self)
{
    volatile char here[4u << 20];

    here[0] = 1;
    *(volatile char *)nowhere = here[0];
    return 0;
}

WSD_VOID_TASK_2(overflowing_child, struct wsd_worker *, parent, atomic_int *, started)
{
    char top = 0;

    atomic_store(started, 1);
    if (self != parent)
        deeper(&top, 0);
}

/* Uses up the stack of another worker, in a task that it has stolen; needs two workers. */
static int stolen_overflow(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_int started = 0;

    WSD_SPAWN(overflowing_child, self, &started);
    while (!atomic_load(&started) && !wsd_job_cancelled(job))
        ;
    WSD_SYNC(overflowing_child);
    return 0;
}

WSD_VOID_TASK_2(child, struct wsd_worker *, parent, atomic_int *, started)
{
    if (self != parent)
        *(volatile uint64_t *)nowhere = 1;
    atomic_store(started, 1);
}

/* Crashes in a task that another worker has stolen; needs two workers. */
static int stolen(struct wsd_job *job, struct wsd_worker *self)
{
    atomic_int started = 0;

    WSD_SPAWN(child, self, &started);
    while (!atomic_load(&started) && !wsd_job_cancelled(job))
        ;
    WSD_SYNC(child);
    return 0;
}

/* FILE: crashes where FILE does not exist, and creates it: so the second run goes well. Prints "survived". */
static int once(struct wsd_job *job, struct wsd_worker *self)
{
    if (job->argc < 2)
        return wsd_job_fail(job, 2, "no file named");
    if (access(job->argv[1], F_OK) != 0) {
        int fd = open(job->argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return wsd_job_fail(job, 2, "%s cannot be created", job->argv[1]);
        close(fd);
        *(volatile uint64_t *)nowhere = 1;
    }
    return wsd_job_print(job, "survived\n") < 0;
}

/* WORD: crashes where that is "crash", else prints it. */
static int word(struct wsd_job *job, struct wsd_worker *self)
{
    if (job->argc < 2 || strcmp(job->argv[1], "crash") == 0)
        *(volatile uint64_t *)nowhere = 1;
    return wsd_job_print(job, "%s\n", job->argv[1]) < 0;
}

#define ARRAY_SIZE_(a) (sizeof(a) / sizeof((a)[0]))
#define BOTH(text, what)                                                                                               \
    {.name = text, .help = "crashes", .run = what},                                                                    \
    {                                                                                                                  \
        .name = text "-again", .help = "crashes, and may run twice", .flags = WSD_FN_IDEMPOTENT, .run = what           \
    }

static const struct wsd_function functions[] = {
    BOTH("segv", segv),         BOTH("abort", on_abort),
    BOTH("exit", on_exit_call), BOTH("kill", killed),
    BOTH("overflow", overflow), BOTH("stolen", stolen),
    BOTH("once", once),         BOTH("word", word),
    BOTH("large", large),       BOTH("at-once", at_once),
    BOTH("bus", bus),           BOTH("illegal", illegal),
    BOTH("divide", divide),     BOTH("jump", jump),
    BOTH("fat", fat),           BOTH("forks", child_exits),
    BOTH("leak", leak),         BOTH("piecemeal", piecemeal),
    BOTH("deep", deep_segv),    BOTH("stolen-overflow", stolen_overflow),
};
WSD_PLUGIN(.n_functions = ARRAY_SIZE_(functions), .functions = functions, .name = "crash", .version = "1",
           .help = "takes the process down");
