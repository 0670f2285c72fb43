/* SPDX-License-Identifier: Apache-2.0
 *
 * aside.c: one detached thread for a piece of work that a loop must not wait for.
 * Owns the thread, its eventfd and, until both sides are through with it, the context.
 * aside_*() [one thread, the starter's]; work() [the new thread].
 * Keeps: the context outlives both sides, and neither waits for the other.
 * Does not limit the time that it takes: the caller forgets it. */
#include "base/aside.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"

struct aside {
    atomic_uint n_refs; /* [atomic: acq_rel in unref(), by both sides; the last one frees] */
    atomic_bool done;   /* [atomic: release in thread_main(), acquire in aside_done()] */
    int fd;
    void (*work)(void *context);
    void (*release)(void *context);
    void *context;
};

static void unref(struct aside *a)
{
    if (atomic_fetch_sub_explicit(&a->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    if (a->release)
        a->release(a->context);
    close_fd(a->fd);
    free(a);
}

static void *thread_main(void *userdata)
{
    struct aside *a = userdata;
    uint64_t one = 1;

    a->work(a->context);
    atomic_store_explicit(&a->done, true, memory_order_release);
    while (write(a->fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    unref(a);
    return NULL;
}

/* Signals are the other threads'. */
static int thread_start(struct aside *a)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;

    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&thread, &attr, thread_main, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -r;
}

int aside_start(struct aside **ret, void (*work)(void *context), void (*release)(void *context), void *context)
{
    struct aside *a = malloc(sizeof(*a));

    if (!a)
        return -ENOMEM;
    *a = (struct aside){
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .work = work, .release = release, .context = context};
    atomic_init(&a->n_refs, 2);
    int r = a->fd < 0 ? -errno : thread_start(a);
    if (r < 0) {
        close_fd(a->fd);
        free(a);
        return r;
    }
    *ret = a;
    return 0;
}

int aside_fd(const struct aside *a)
{
    return a->fd;
}

bool aside_done(const struct aside *a)
{
    return atomic_load_explicit(&a->done, memory_order_acquire);
}

struct aside *aside_forget(struct aside *a)
{
    if (a)
        unref(a);
    return NULL;
}
