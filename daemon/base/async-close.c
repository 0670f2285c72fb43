/* SPDX-License-Identifier: Apache-2.0
 *
 * async-close.c: closing what may block, or takes long. [any thread]
 * Owns the descriptors that wait for their close(), and the threads that close them. One kind of thread closes what may
 * block, the other kind memory.
 * Keeps: each descriptor is closed once. The caller goes on at once, unless there is neither memory nor a thread. No
 * memory waits for a close that blocks. No owner waits for more than another owner's share of the threads. */
#include "base/async-close.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/list.h"

#define STACK 65536u
#define BLOCK 512u /* of st_blocks */

/* An owner of waiting descriptors. */
struct owner {
    struct hash_link by_number;
    struct list link; /* closers->ready, or none: nothing waits, or as much is being closed as may be */
    uint64_t number;
    int *waiting;
    size_t n_waiting, n_room;
    unsigned n_closing;
};

struct closers {
    pthread_mutex_t lock;
    struct hash owners;             /* [lock] */
    struct list ready;              /* [lock] its first one is next */
    unsigned n_threads;             /* [lock] */
    unsigned max_threads, max_each; /* [const] */
};

static struct closers blocking = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                  .ready = {&blocking.ready, &blocking.ready},
                                  .max_threads = ASYNC_CLOSERS,
                                  .max_each = ASYNC_CLOSERS_EACH};
static struct closers memory = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .ready = {&memory.ready, &memory.ready}, .max_threads = 1, .max_each = 1};

/* [lock] */
static struct owner *owner_find(const struct closers *c, uint64_t number)
{
    for (struct hash_link *l = hash_first(&c->owners, hash_number(number)); l; l = hash_next(l)) {
        struct owner *o = container_of(l, struct owner, by_number);

        if (o->number == number)
            return o;
    }
    return NULL;
}

/* [lock] */
static struct owner *owner_find_or_make(struct closers *c, uint64_t number)
{
    struct owner *o = owner_find(c, number);

    if (o)
        return o;
    o = calloc(1, sizeof(*o));
    if (!o || hash_insert(&c->owners, &o->by_number, hash_number(number)) < 0) {
        free(o);
        return NULL;
    }
    list_init(&o->link);
    o->number = number;
    return o;
}

/* What was given, taken or closed has changed it. [lock] */
static void owner_settle(struct closers *c, struct owner *o)
{
    list_remove(&o->link);
    if (o->n_waiting && o->n_closing < c->max_each) {
        list_push_back(&c->ready, &o->link);
    } else if (!o->n_waiting && !o->n_closing) {
        hash_remove(&c->owners, &o->by_number);
        free(o->waiting);
        free(o);
    }
}

/* Ends when nothing is ready: what is not, has a thread that closes for the same owner and looks again. */
static void *closer(void *arg)
{
    struct closers *c = arg;

    pthread_mutex_lock(&c->lock);
    while (!list_empty(&c->ready)) {
        struct owner *o = container_of(c->ready.next, struct owner, link);
        int fd = o->waiting[--o->n_waiting];

        o->n_closing++;
        owner_settle(c, o);
        pthread_mutex_unlock(&c->lock);
        close(fd);
        pthread_mutex_lock(&c->lock);
        o->n_closing--;
        owner_settle(c, o);
    }
    c->n_threads--;
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* [lock] */
static bool start_closer(struct closers *c)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    if (c->n_threads == c->max_threads || list_empty(&c->ready))
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
static bool owner_put(struct owner *o, int fd)
{
    if (o->n_waiting == o->n_room) {
        size_t n = o->n_room ? o->n_room * 2 : 16;
        int *more = reallocarray(o->waiting, n, sizeof(*more));

        if (!more)
            return false;
        o->waiting = more;
        o->n_room = n;
    }
    o->waiting[o->n_waiting++] = fd;
    return true;
}

static bool give_descriptor(struct closers *c, int fd, uint64_t number)
{
    struct owner *o;
    bool given = false;

    pthread_mutex_lock(&c->lock);
    o = owner_find_or_make(c, number);
    if (o) {
        given = owner_put(o, fd);
        owner_settle(c, o);
    }
    if (given && !start_closer(c)) {
        o->n_waiting--;
        owner_settle(c, o);
        given = false;
    }
    pthread_mutex_unlock(&c->lock);
    return given;
}

static size_t held(struct closers *c, uint64_t number)
{
    const struct owner *o;

    pthread_mutex_lock(&c->lock);
    o = owner_find(c, number);
    size_t n = o ? o->n_waiting + o->n_closing : 0;
    pthread_mutex_unlock(&c->lock);
    return n;
}

size_t async_close_pending(uint64_t owner)
{
    return held(&blocking, owner) + held(&memory, owner);
}

/* The threads that are to close it; NULL: its close does not take long. */
static struct closers *closers_for(int fd)
{
    struct stat st;

    if (fcntl(fd, F_GET_SEALS) < 0)
        return &blocking;
    /* its pages count, too, which may lie beyond its end */
    if (fstat(fd, &st) < 0 || st.st_size > ASYNC_CLOSE_AT_ONCE || st.st_blocks > ASYNC_CLOSE_AT_ONCE / BLOCK)
        return &memory;
    return NULL;
}

int async_close(int fd, uint64_t owner)
{
    struct closers *c;

    if (fd < 0)
        return -1;
    c = closers_for(fd);
    if (!c || !give_descriptor(c, fd, owner))
        close(fd);
    return -1;
}
