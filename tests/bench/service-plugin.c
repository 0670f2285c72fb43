/* SPDX-License-Identifier: Apache-2.0
 *
 * service-plugin.c: jobs for the benchmarks with dying executors. It is built twice, so that crashing jobs are in one
 * plugin and the others in another one.
 *   The job `work` works for 0.1 ms and then prints the executor's pid.
 *   The job `echo` gives its input back.
 *   The job `copy`, too, as it comes.
 *   The job `spin USEC` works for so long, and prints nothing.
 *   The job `segv [NSEC]` crashes, at that time of CLOCK_MONOTONIC.
 *   The job `fat MIB` makes so much memory resident, once in an executor. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <wsd/plugin.h>

/* An address that is not mapped. volatile hides it from the compiler. */
static volatile uintptr_t nowhere = 8;

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int work(struct wsd_job *job, struct wsd_worker *self)
{
    for (uint64_t until = now() + 100000; now() < until;)
        ;
    return wsd_job_print(job, "%d\n", (int)getpid()) < 0;
}

static int echo(struct wsd_job *job, struct wsd_worker *self)
{
    return wsd_job_write(job, job->input, job->input_size) < 0;
}

static int copy(struct wsd_job *job, struct wsd_worker *self)
{
    char data[128 << 10];
    int64_t n;

    while ((n = wsd_job_read(job, data, sizeof(data))) > 0)
        if (wsd_job_write(job, data, (size_t)n) < 0)
            return 1;
    return n < 0;
}

static int spin(struct wsd_job *job, struct wsd_worker *self)
{
    unsigned usec = job->argc > 1 ? (unsigned)atoi(job->argv[1]) : 0;

    for (uint64_t until = usec ? now() + usec * 1000u : 0; usec && now() < until;)
        ;
    return 0;
}

static int segv(struct wsd_job *job, struct wsd_worker *self)
{
    uint64_t at = job->argc > 1 ? strtoull(job->argv[1], NULL, 10) : 0;

    if (at && now() > at)
        return wsd_job_fail(job, 2, "came too late");
    while (now() < at)
        ;
    *(volatile uint64_t *)nowhere = 1;
    return 0;
}

static int fat(struct wsd_job *job, struct wsd_worker *self)
{
    static atomic_int done;
    size_t size = (job->argc > 1 ? strtoul(job->argv[1], NULL, 10) : 1) << 20;

    if (atomic_exchange(&done, 1))
        return 0;
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED;
}

static const struct wsd_function functions[] = {
    {.name = "work", .help = "works a little", .flags = WSD_FN_IDEMPOTENT, .run = work},
    {.name = "echo", .help = "gives its input back", .flags = WSD_FN_IDEMPOTENT | WSD_FN_SHARED, .run = echo},
    {.name = "copy", .help = "gives its input back as it comes", .flags = WSD_FN_STREAMING, .run = copy},
    {.name = "spin", .help = "works for so long", .flags = WSD_FN_IDEMPOTENT, .run = spin},
    {.name = "segv", .help = "crashes", .run = segv},
    {.name = "fat", .help = "makes memory resident", .flags = WSD_FN_IDEMPOTENT, .run = fat},
};
WSD_PLUGIN(.n_functions = 6, .functions = functions, .name = NAME, .version = "1", .help = "for benchmarks");
