/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c: each thread that a plugin makes holds the handle of the job that it was made for.
 * Owns the two symbols. Plugins and their libraries find these before the C library's. [any]
 * Keeps: a thread's handle is held from before the thread begins. It is released when the destructors of its
 * thread-local variables and keys have run.
 * Does not see a clone() that a plugin calls by itself, or the threads that the C library makes for timers and aio. */
#include "executor/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

#include "host/handle.h"
#include "host/run.h"

typedef void *thread_run(void *);
typedef int thread_create(pthread_t *, const pthread_attr_t *, thread_run *, void *);

struct start {
    struct handle *handle;
    thread_run *run;
    void *arg;
    unsigned n_rounds; /* of destructors, when it ends */
};

extern const char __executable_start[], etext[]; /* the linker's: this program's code */

static thread_create *create; /* [const after init] the C library's, or a sanitizer's */
static pthread_key_t ends;    /* [const after init] */

static void start_free(struct start *s)
{
    handle_drop(s->handle);
    free(s);
}

/* In the last round, so that the destructors of other keys run before. In that round ThreadSanitizer ends its own part of
 * the thread, without which none of its code can run. */
#ifdef __SANITIZE_THREAD__
#define ROUNDS (PTHREAD_DESTRUCTOR_ITERATIONS - 1)
#else
#define ROUNDS PTHREAD_DESTRUCTOR_ITERATIONS
#endif

static void on_end(void *value)
{
    struct start *s = value;

    if (++s->n_rounds < ROUNDS && pthread_setspecific(ends, s) == 0)
        return;
    handle_adopt(NULL);
    start_free(s);
}

static void *run_thread(void *arg)
{
    struct start *s = arg;

    handle_adopt(s->handle);
    pthread_setspecific(ends, s);
    return s->run(s->arg);
}

bool thread_init(void)
{
    /* POSIX has functions and objects of one size */
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    return create && pthread_key_create(&ends, on_end) == 0;
}

/* Workers and the like, which are made on behalf of whatever job was there. */
static bool is_own(thread_run *run)
{
    return (uintptr_t)run >= (uintptr_t)__executable_start && (uintptr_t)run < (uintptr_t)etext;
}

static int make_thread(pthread_t *thread, const pthread_attr_t *attr, thread_run *run, void *arg)
{
    struct start *s = malloc(sizeof(*s));

    if (!s)
        return EAGAIN;
    *s = (struct start){.handle = handle_share(host_current()), .run = run, .arg = arg};
    int r = create(thread, attr, run_thread, s);
    if (r != 0)
        start_free(s);
    return r;
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                                          thread_run *run, void *arg)
{
    if (!create && !thread_init())
        return EAGAIN;
    return is_own(run) ? create(thread, attr, run, arg) : make_thread(thread, attr, run, arg);
}

/* --- C11 ---------------------------------------------------------------------------------------------------------- */

struct c11 {
    thrd_start_t run;
    void *arg;
};

/* As in the C library, thrd_join() finds the status where pthread_join() finds the result. */
static void *begin_c11(void *arg)
{
    struct c11 c = *(struct c11 *)arg;

    free(arg);
    return (void *)(intptr_t)c.run(c.arg);
}

__attribute__((visibility("default"))) int thrd_create(thrd_t *thread, thrd_start_t run, void *arg)
{
    struct c11 *c = malloc(sizeof(*c));

    if (!c || (!create && !thread_init())) {
        free(c);
        return thrd_nomem;
    }
    *c = (struct c11){run, arg};
    int r = make_thread(thread, NULL, begin_c11, c);
    if (r != 0)
        free(c);
    return r == 0 ? thrd_success : r == ENOMEM ? thrd_nomem : thrd_error;
}
