/* SPDX-License-Identifier: Apache-2.0
 *
 * foreign.c: closing what may block, or takes long. [any thread]
 * Owns the descriptors that wait for their close(), and the threads that do it, of two kinds: for what may block, and for memory.
 * Keeps: each descriptor is closed once; whoever calls goes on at once, unless there is neither memory nor a thread; no memory waits
 * for a close that blocks. */
#include "base/foreign.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STACK 65536u
#define BLOCK 512u /* of st_blocks */

struct closers {
    pthread_mutex_t lock;
    int *waiting; /* [lock] */
    size_t n_waiting, n_room;
    unsigned n_threads;
    unsigned max_threads; /* [const] */
};

static struct closers blocking = {.lock = PTHREAD_MUTEX_INITIALIZER, .max_threads = FOREIGN_CLOSERS};
static struct closers memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .max_threads = 1};

static void *closer(void *arg)
{
    struct closers *c = arg;

    pthread_mutex_lock(&c->lock);
    while (c->n_waiting) {
        int fd = c->waiting[--c->n_waiting];

        pthread_mutex_unlock(&c->lock);
        close(fd);
        pthread_mutex_lock(&c->lock);
    }
    c->n_threads--;
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* [lock] */
static bool start(struct closers *c)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (c->n_threads == c->max_threads)
        return true; /* one of them will come to it */
    if (pthread_attr_init(&attributes) != 0)
        return c->n_threads;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c->n_threads += pthread_create(&thread, &attributes, closer, c) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return c->n_threads;
}

/* [lock] */
static bool put(struct closers *c, int fd)
{
    if (c->n_waiting == c->n_room) {
        size_t n = c->n_room ? c->n_room * 2 : 16;
        int *more = reallocarray(c->waiting, n, sizeof(*more));

        if (!more)
            return false;
        c->waiting = more;
        c->n_room = n;
    }
    c->waiting[c->n_waiting++] = fd;
    return true;
}

static bool give(struct closers *c, int fd)
{
    bool given;

    pthread_mutex_lock(&c->lock);
    given = put(c, fd);
    if (given && !start(c)) {
        c->n_waiting--;
        given = false;
    }
    pthread_mutex_unlock(&c->lock);
    return given;
}

/* Who is to close it; NULL: its close is over at once. */
static struct closers *closers_for(int fd)
{
    struct stat st;

    if (fcntl(fd, F_GET_SEALS) < 0)
        return &blocking;
    /* its pages count, too, which may lie beyond its end */
    if (fstat(fd, &st) < 0 || st.st_size > FOREIGN_AT_ONCE || st.st_blocks > FOREIGN_AT_ONCE / BLOCK)
        return &memory;
    return NULL;
}

int close_foreign(int fd)
{
    struct closers *c;

    if (fd < 0)
        return -1;
    c = closers_for(fd);
    if (!c || !give(c, fd))
        close(fd);
    return -1;
}
