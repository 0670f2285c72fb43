/* SPDX-License-Identifier: Apache-2.0
 *
 * eventcount.c: the eventcount of eventcount.h.
 * Owns nothing; the memory is its user's. [any]
 * Keeps: a notify after a publication is seen by every waiter that did not see the publication.
 * Does not know what is waited for. */
#include "base/eventcount.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void eventcount_init(struct eventcount *e)
{
    atomic_init(&e->epoch, 0);
    atomic_init(&e->waiters, 0);
}

uint32_t eventcount_prepare(struct eventcount *e)
{
    /* seq_cst: partner is the seq_cst RMW in eventcount_notify(); see eventcount.h. The epoch is read after the
     * announcement: a notifier that did not see us cannot have bumped an epoch that we take for new. */
    atomic_fetch_add_explicit(&e->waiters, 1, memory_order_seq_cst);
    return atomic_load_explicit(&e->epoch, memory_order_seq_cst);
}

void eventcount_cancel(struct eventcount *e)
{
    atomic_fetch_sub_explicit(&e->waiters, 1, memory_order_relaxed);
}

bool eventcount_wait(struct eventcount *e, uint32_t epoch, uint64_t timeout_usec, bool shared)
{
    struct timespec t = {.tv_sec = (time_t)(timeout_usec / 1000000u),
                         .tv_nsec = (long)(timeout_usec % 1000000u) * 1000};
    bool in_time = true;

    if (atomic_load_explicit(&e->epoch, memory_order_acquire) == epoch)
        in_time = futex(&e->epoch, FUTEX_WAIT | (shared ? 0 : FUTEX_PRIVATE_FLAG), epoch,
                        timeout_usec == UINT64_MAX ? NULL : &t) == 0 ||
                  errno != ETIMEDOUT;
    eventcount_cancel(e);
    return in_time;
}

void eventcount_wake_watch(struct eventcount *e, bool shared)
{
    /* acq_rel: one of several notifiers makes the call; the watch sees what each of them had published */
    if (atomic_fetch_and_explicit(&e->waiters, EVENTCOUNT_WAITERS, memory_order_acq_rel) & EVENTCOUNT_WATCHED)
        futex(&e->waiters, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), INT_MAX, NULL);
}

bool eventcount_notify(struct eventcount *e, uint32_t n, bool shared)
{
    /* A locked RMW of zero stands for the fence: ThreadSanitizer understands it, and clang's mfence is slower.
     * seq_cst: partners are the RMWs in eventcount_prepare() and eventcount_set_add(). */
    uint32_t waiters = atomic_fetch_add_explicit(&e->waiters, 0, memory_order_seq_cst);

    if (waiters == 0)
        return false;
    if (waiters == EVENTCOUNT_WATCHED || (waiters & EVENTCOUNT_WATCHED && n == UINT32_MAX))
        eventcount_wake_watch(e, shared);
    if (waiters == EVENTCOUNT_WATCHED)
        return false;
    atomic_fetch_add_explicit(&e->epoch, 1, memory_order_release);
    futex(&e->epoch, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), n > INT_MAX ? INT_MAX : n, NULL);
    return true;
}

/* --- several at once ---------------------------------------------------------------------------------------------- */

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449 /* newer than the headers of some distributions */
#endif

/* As linux/futex.h has it from 5.16 on. */
struct waitv {
    uint64_t value, address;
    uint32_t flags, reserved;
};
#define WAITV_32      0x02u
#define WAITV_PRIVATE 128u

bool eventcount_set_available(void)
{
    /* nothing to wait for is wrong; no such call is something else, and a filter may say EPERM */
    return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno == EINVAL;
}

void eventcount_set_init(struct eventcount_set *s)
{
    s->n = 0;
    s->watch = false;
}

void eventcount_set_init_watch(struct eventcount_set *s)
{
    s->n = 0;
    s->watch = true;
}

void eventcount_set_add(struct eventcount_set *s, struct eventcount *e, void *owner)
{
    assert(s->n < EVENTCOUNT_SET_MAX);
    if (s->watch) /* seq_cst: as in eventcount_prepare() */
        s->epochs[s->n] = atomic_fetch_or_explicit(&e->waiters, EVENTCOUNT_WATCHED, memory_order_seq_cst);
    else
        s->epochs[s->n] = eventcount_prepare(e);
    s->owners[s->n] = owner;
    s->events[s->n++] = e;
}

void eventcount_set_cancel(struct eventcount_set *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->watch)
            atomic_fetch_and_explicit(&s->events[i]->waiters, EVENTCOUNT_WAITERS, memory_order_relaxed);
        else
            eventcount_cancel(s->events[i]);
}

bool eventcount_set_rang(const struct eventcount_set *s, uint32_t index)
{
    return !s->watch && atomic_load_explicit(&s->events[index]->epoch, memory_order_relaxed) != s->epochs[index];
}

/* Sleeps while each word has this value. False: one had not. */
static bool wait_for_any(const struct eventcount_set *s, bool shared)
{
    struct waitv waits[EVENTCOUNT_SET_MAX];

    if (s->n == 1)
        return futex(s->watch ? &s->events[0]->waiters : &s->events[0]->epoch,
                     FUTEX_WAIT | (shared ? 0 : FUTEX_PRIVATE_FLAG), s->epochs[0], NULL) == 0 ||
               errno != EAGAIN;
    for (uint32_t i = 0; i < s->n; i++)
        waits[i] = (struct waitv){.value = s->epochs[i],
                                  .address = (uintptr_t)(s->watch ? &s->events[i]->waiters : &s->events[i]->epoch),
                                  .flags = WAITV_32 | (shared ? 0 : WAITV_PRIVATE)};
    return syscall(SYS_futex_waitv, waits, s->n, 0, NULL, CLOCK_MONOTONIC) >= 0 || errno != EAGAIN;
}

/* Waiters come and go beside a watch. It sleeps on the words as they are, as long as its bit is in each. Others may write
 * them without an end: then it comes back as if it had been woken. */
#define WATCH_TRIES 16

static bool take_watched(struct eventcount_set *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        /* acquire: partner is the release in eventcount_wake_watch() */
        s->epochs[i] = atomic_load_explicit(&s->events[i]->waiters, memory_order_acquire);
        if (!(s->epochs[i] & EVENTCOUNT_WATCHED))
            return false;
    }
    return true;
}

void eventcount_set_wait(struct eventcount_set *s, bool shared)
{
    if (s->watch)
        for (int i = 0; i < WATCH_TRIES && take_watched(s) && !wait_for_any(s, shared); i++)
            ;
    else
        wait_for_any(s, shared);
    eventcount_set_cancel(s);
}
