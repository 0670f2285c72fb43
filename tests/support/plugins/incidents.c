/* SPDX-License-Identifier: Apache-2.0
 *
 * incidents.c: test plugin: what goes wrong in packaging/doc/incidents.md. */
#include <wsd/plugin.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long number(const struct wsd_job *job)
{
    return job->argc > 1 ? atol(job->argv[1]) : 1;
}

static char *volatile last; /* so that the compiler does not leave it out */

static int take(struct wsd_job *job, size_t mib)
{
    char *memory = last = malloc(mib << 20);

    if (!memory)
        return wsd_job_fail(job, 12, "out of memory");
    memset(memory, 1, mib << 20);
    return 0;
}

/* MIB: takes so much, and never gives it back. */
static int leak(struct wsd_job *job, struct wsd_worker *self)
{
    return take(job, (size_t)number(job));
}

/* Takes memory until there is no more. */
static int hungry(struct wsd_job *job, struct wsd_worker *self)
{
    int r;

    while ((r = take(job, 16)) == 0)
        ;
    return r;
}

/* Waits for a lock that it has itself. */
static int deadlock(struct wsd_job *job, struct wsd_worker *self)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    return pthread_mutex_lock(&lock);
}

static int spin(struct wsd_job *job, struct wsd_worker *self)
{
    for (volatile long i = 0; i >= 0;)
        i = i < 1000 ? i + 1 : 0;
    return 0;
}

/* MILLISECONDS: takes so long. */
static int slow(struct wsd_job *job, struct wsd_worker *self)
{
    const long n = number(job);

    return nanosleep(&(struct timespec){.tv_sec = n / 1000, .tv_nsec = n % 1000 * 1000000}, NULL);
}

/* N: crashes where N ends with 13. */
static int rare(struct wsd_job *job, struct wsd_worker *self)
{
    if (number(job) % 100 == 13)
        abort();
    return 0;
}

static const struct wsd_function functions[] = {
    {.name = "leak", .help = "MIB: keeps it", .run = leak},
    {.name = "hungry", .help = "takes all memory", .run = hungry},
    {.name = "deadlock", .help = "waits for itself", .run = deadlock},
    {.name = "spin", .help = "never ends", .run = spin},
    {.name = "slow", .help = "MILLISECONDS: takes so long", .run = slow},
    {.name = "rare", .help = "N: crashes where N ends with 13", .flags = WSD_FN_IDEMPOTENT, .run = rare},
};
WSD_PLUGIN(.n_functions = 6, .functions = functions, .name = "incidents", .version = "1", .help = "goes wrong");
