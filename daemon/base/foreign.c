/* SPDX-License-Identifier: Apache-2.0
 *
 * foreign.c: closing what may block. [any thread]
 * Owns the descriptors that wait for their close(), and the threads that do it.
 * Keeps: each descriptor is closed once; whoever calls goes on at once, unless there is neither memory nor a thread. */
#include "base/foreign.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define STACK 65536u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *waiting; /* [lock] */
static size_t n_waiting, n_room;
static unsigned n_closers;

static void *closer(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (n_waiting) {
        int fd = waiting[--n_waiting];

        pthread_mutex_unlock(&lock);
        close(fd);
        pthread_mutex_lock(&lock);
    }
    n_closers--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* [lock] */
static bool start(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (n_closers == FOREIGN_CLOSERS)
        return true; /* one of them will come to it */
    if (pthread_attr_init(&attributes) != 0)
        return n_closers;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    n_closers += pthread_create(&thread, &attributes, closer, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return n_closers;
}

/* [lock] */
static bool put(int fd)
{
    if (n_waiting == n_room) {
        size_t n = n_room ? n_room * 2 : 16;
        int *more = reallocarray(waiting, n, sizeof(*more));

        if (!more)
            return false;
        waiting = more;
        n_room = n;
    }
    waiting[n_waiting++] = fd;
    return true;
}

int close_foreign(int fd)
{
    bool given;

    if (fd < 0)
        return -1;
    if (fcntl(fd, F_GET_SEALS) < 0) {
        pthread_mutex_lock(&lock);
        given = put(fd);
        if (given && !start()) {
            n_waiting--;
            given = false;
        }
        pthread_mutex_unlock(&lock);
        if (given)
            return -1;
    }
    close(fd);
    return -1;
}
