/* SPDX-License-Identifier: Apache-2.0
 *
 * self.c: test plugin: uses files by its own rights, not by those of the submitter. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wsd/plugin.h>

#define PIECE   (1u << 20)
#define THREADS 200
#define STACK   (192u << 10) /* above what [executor] static-tls takes of it */

static int fails(struct wsd_job *job, const char *what)
{
    return wsd_job_fail(job, 3, "%s: %s", what, strerror(errno));
}

static int get(struct wsd_job *job, struct wsd_worker *self)
{
    const char *path = job->argc == 2 ? job->argv[1] : NULL;
    char text[4096];
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (n < 0)
        return fails(job, "get");
    close(fd);
    return wsd_job_write(job, text, (size_t)n) < 0;
}

static int make(struct wsd_job *job, struct wsd_worker *self)
{
    const char *path = job->argc == 2 ? job->argv[1] : NULL;
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;

    if (fd < 0 || write(fd, "made\n", 5) != 5)
        return fails(job, "make");
    return close(fd);
}

/* Fills a memory file, which RLIMIT_DATA does not count. */
static int fill(struct wsd_job *job, struct wsd_worker *self)
{
    static char piece[PIECE];
    int fd = memfd_create("fill", MFD_CLOEXEC);

    memset(piece, 1, sizeof(piece));
    for (unsigned n = 0; fd >= 0 && n < 4096; n++)
        if (write(fd, piece, sizeof(piece)) < 0)
            break;
    return fails(job, "fill");
}

static void *waits(void *barrier)
{
    pthread_mutex_lock(barrier);
    pthread_mutex_unlock(barrier);
    return NULL;
}

/* How many threads there can be at once. */
static int threads(struct wsd_job *job, struct wsd_worker *self)
{
    static pthread_t all[THREADS];
    pthread_mutex_t barrier = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t small; /* so that memory does not end first */
    unsigned n = 0;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    pthread_mutex_lock(&barrier);
    while (n < THREADS && pthread_create(&all[n], &small, waits, &barrier) == 0)
        n++;
    pthread_mutex_unlock(&barrier);
    for (unsigned i = 0; i < n; i++)
        pthread_join(all[i], NULL);
    pthread_attr_destroy(&small);
    return wsd_job_print(job, "%u\n", n) < 0;
}

static const struct wsd_function functions[] = {
    {.name = "threads", .help = "starts as many as it may", .run = threads},
    {.name = "get", .help = "FILE: reads it", .run = get},
    {.name = "make", .help = "FILE: makes it", .run = make},
    {.name = "fill", .help = "takes memory that is no process's", .run = fill},
};
WSD_PLUGIN(.n_functions = 4, .functions = functions, .name = "self", .version = "1", .help = "acts by its own rights");
