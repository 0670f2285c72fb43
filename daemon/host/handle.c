/* SPDX-License-Identifier: Apache-2.0
 *
 * handle.c: which job a struct wsd_job stands for, and until when.
 * Owns the handles. Owns a list of the last ones that were retired. [each function says where]
 * Keeps: a handle that a known thread of a plugin may have is not freed. Nor does it ever stand for a second job. A job
 * is over when no other thread is in a call of it.
 * Does not know how a thread is made (executor/thread.c), or what a call does (run.c). */
#include "host/handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/run.h"
#include "pool/pool.h"

#define SAID 200u /* bytes of what a late call says: wsd cuts lines to about so much */

/* Threads of plugins that are alive. [atomic: relaxed; a thread that gives a handle to one of them has seen it] */
static _Atomic uint32_t n_threads;

static struct {
    pthread_mutex_t lock;
    struct handle *handles[HANDLES_PAST]; /* [lock] a ring */
    uint64_t n;                           /* [lock] */
} past = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct handle *adopted __attribute__((tls_model("initial-exec")));

struct handle *handle_new(struct host_job *owner)
{
    /* a job that ends does not wait for threads that call again and again */
    static const pthread_rwlock_t unlocked = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    struct handle *h = aligned_alloc(64, (sizeof(*h) + 63) & ~(size_t)63);

    if (!h)
        return NULL;
    memset(h, 0, sizeof(*h));
    atomic_init(&h->owner, owner);
    h->calls = unlocked;
    atomic_init(&h->refs, 1);
    return h;
}

static void unref(struct handle *h)
{
    /* acq_rel: the thread that frees it sees what the others have done with it */
    if (!h || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) > 1)
        return;
    pthread_rwlock_destroy(&h->calls);
    free(h->room);
    free(h);
}

bool handle_is_lent(const struct handle *h)
{
    /* acquire: partner is the release of a thread's end */
    return atomic_load_explicit(&n_threads, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&h->lent, memory_order_relaxed) ||
           atomic_load_explicit(&h->refs, memory_order_acquire) > 1;
}

static void lock_out(struct handle *h)
{
    if (pthread_rwlock_trywrlock(&h->calls) == 0)
        return;
    pool_blocking_begin();
    pthread_rwlock_wrlock(&h->calls);
    pool_blocking_end();
}

void handle_retire(struct handle *h, const char *plugin, const char *function)
{
    static const char *const no_arguments[] = {NULL};

    if (!h)
        return;
    lock_out(h);
    atomic_store_explicit(&h->owner, NULL, memory_order_relaxed);
    h->job.argc = 0;
    h->job.argv = no_arguments;
    h->job.input = NULL;
    h->job.input_size = 0;
    snprintf(h->title, sizeof(h->title), "%s:%s", plugin, function);
    pthread_rwlock_unlock(&h->calls);
    pthread_mutex_lock(&past.lock);
    struct handle **at = &past.handles[past.n++ % HANDLES_PAST], *oldest = *at;
    *at = h;
    pthread_mutex_unlock(&past.lock);
    unref(oldest);
}

struct host_job *handle_enter(struct handle *h)
{
    atomic_store_explicit(&h->lent, true, memory_order_relaxed);
    pthread_rwlock_rdlock(&h->calls);
    struct host_job *owner = atomic_load_explicit(&h->owner, memory_order_relaxed);
    if (owner)
        return owner;
    pthread_rwlock_unlock(&h->calls);
    return NULL;
}

void handle_leave(struct handle *h)
{
    pthread_rwlock_unlock(&h->calls);
}

void handle_says(const struct handle *h, const char *text, size_t size)
{
    char line[HANDLE_TITLE + SAID + 64];

    while (size > 0 && text[size - 1] == '\n')
        size--;
    if (size == 0)
        return;
    size_t n = (size_t)snprintf(line, sizeof(line), "%s, in a thread that its job has left behind: ", h->title);
    for (size_t i = 0; i < MIN(size, (size_t)SAID); i++)
        line[n++] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) /* in one call, so that no two lines mix; if it fails there is no reader */
        return;
}

struct handle *handle_share(struct host_job *job)
{
    struct handle *h = job ? job->handle : adopted;

    atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed);
    if (h)
        atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
    return h;
}

void handle_adopt(struct handle *h)
{
    adopted = h;
}

void handle_drop(struct handle *h)
{
    unref(h);
    atomic_fetch_sub_explicit(&n_threads, 1, memory_order_relaxed);
}

struct host_job *handle_job_of_thread(void)
{
    return adopted ? atomic_load_explicit(&adopted->owner, memory_order_relaxed) : NULL;
}
