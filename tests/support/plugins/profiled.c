/* SPDX-License-Identifier: Apache-2.0
 *
 * profiled.c: test plugin: spends its CPU time in functions of known names and shares; and stands still in known places. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <wsd/plugin.h>
#include <wsd/task.h>

#ifdef __clang__ /* which makes no clones with names of their own */
#define KEPT static __attribute__((noinline, used))
#else
#define KEPT static __attribute__((noinline, noclone, used))
#endif

/* No frame of its own, however the compiler optimises. */
static inline __attribute__((always_inline)) void burn(unsigned n)
{
    for (volatile unsigned i = 0; i < n; i++)
        ;
}

/* The additions keep the calls from becoming jumps, which leave no frame. */
KEPT unsigned profiled_heavy(void)
{
    burn(300000);
    return 1;
}

KEPT unsigned profiled_light(void)
{
    burn(100000);
    return 1;
}

KEPT unsigned profiled_pair(void)
{
    return profiled_heavy() + profiled_light();
}

/* Until cancelled: three quarters of the time in profiled_heavy(). */
static int work(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned n = 0;

    while (!wsd_job_cancelled(job))
        n += profiled_pair();
    return wsd_job_fail(job, 1, "stopped after %u", n);
}

WSD_VOID_TASK_2(profiled_leaf, struct wsd_job *, job, unsigned *, sum)
{
    while (!wsd_job_cancelled(job))
        *sum += profiled_heavy();
}

KEPT void profiled_spawner(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned sums[2] = {0, 0};

    WSD_SPAWN(profiled_leaf, job, &sums[0]);
    while (!wsd_job_cancelled(job))
        sums[1] += profiled_light();
    WSD_SYNC(profiled_leaf);
}

/* One task that is stolen, as long as its spawner goes on. */
static int tasks(struct wsd_job *job, struct wsd_worker *self)
{
    profiled_spawner(job, self);
    return wsd_job_fail(job, 1, "stopped");
}

/* For a while its frame pointer, by which the unwinder finds its caller, is wild. */
KEPT unsigned profiled_wild(unsigned n)
{
    volatile char *room = __builtin_alloca(n % 64 + 16);

    *room = 1;
#ifdef __x86_64__
    uint64_t left = 20000000;

    __asm__ volatile("mov %%rbp, %%rbx\n\t"
                     "mov $8, %%rbp\n"
                     "1:\n\t"
                     "dec %0\n\t"
                     "jnz 1b\n\t"
                     "mov %%rbx, %%rbp"
                     : "+c"(left)
                     :
                     : "rbx", "cc");
#endif
    return (unsigned)*room + profiled_heavy();
}

static int wild(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned n = 0;

    while (!wsd_job_cancelled(job))
        n += profiled_wild(n);
    return wsd_job_fail(job, 1, "stopped after %u", n);
}

KEPT int profiled_wait(int fd, int msec)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r = poll(&p, 1, msec);

    return r < 0 ? -errno : r;
}

/* MILLISECONDS: sleeps in one poll(), and tells whether a signal ended it. */
static int nap(struct wsd_job *job, struct wsd_worker *self)
{
    int ends[2], r = pipe(ends);

    if (r < 0)
        return wsd_job_fail(job, 2, "no pipe");
    r = profiled_wait(ends[0], job->argc > 1 ? atoi(job->argv[1]) : 100);
    close(ends[0]);
    close(ends[1]);
    return wsd_job_print(job, r == -EINTR ? "interrupted\n" : "slept\n") < 0;
}

KEPT int profiled_lock(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    return pthread_mutex_lock(lock) + 1;
}

/* For ever. */
static int deadlock(struct wsd_job *job, struct wsd_worker *self)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    return profiled_lock(&lock);
}

static const struct wsd_function functions[] = {
    {.name = "work", .help = "burns CPU in two functions until cancelled", .run = work},
    {.name = "tasks", .help = "the same in a stolen task", .run = tasks},
    {.name = "nap", .help = "MILLISECONDS: sleeps in poll()", .run = nap},
    {.name = "wild", .help = "breaks its stack for the unwinder", .run = wild},
    {.name = "deadlock", .help = "waits for itself", .run = deadlock},
};
WSD_PLUGIN(.n_functions = 5, .functions = functions, .name = "profiled", .version = "1", .help = "for profiles");
