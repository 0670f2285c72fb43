/* SPDX-License-Identifier: Apache-2.0
 *
 * event.c: the eventcount of event.h.
 * Owns nothing; the memory is its user's. [any]
 * Keeps: a notify after a publication is seen by every waiter that did not see the publication.
 * Does not know what is waited for. */
#include "base/event.h"

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

void event_init(struct event *e)
{
    atomic_init(&e->epoch, 0);
    atomic_init(&e->waiters, 0);
}

uint32_t event_prepare(struct event *e)
{
    /* seq_cst: partner is the seq_cst RMW in event_notify(); see event.h. The epoch is read after the announcement: a
     * notifier that missed us cannot have bumped an epoch that we take for new. */
    atomic_fetch_add_explicit(&e->waiters, 1, memory_order_seq_cst);
    return atomic_load_explicit(&e->epoch, memory_order_seq_cst);
}

void event_cancel(struct event *e)
{
    atomic_fetch_sub_explicit(&e->waiters, 1, memory_order_relaxed);
}

bool event_wait(struct event *e, uint32_t epoch, uint64_t timeout_usec, bool shared)
{
    struct timespec t = {.tv_sec = (time_t)(timeout_usec / 1000000u), .tv_nsec = (long)(timeout_usec % 1000000u) * 1000};
    bool in_time = true;

    if (atomic_load_explicit(&e->epoch, memory_order_acquire) == epoch)
        in_time = futex(&e->epoch, FUTEX_WAIT | (shared ? 0 : FUTEX_PRIVATE_FLAG), epoch,
                        timeout_usec == UINT64_MAX ? NULL : &t) == 0 ||
                  errno != ETIMEDOUT;
    event_cancel(e);
    return in_time;
}

bool event_notify(struct event *e, uint32_t n, bool shared)
{
    /* A locked RMW of zero stands for the fence: ThreadSanitizer understands it, and clang's mfence is slower.
     * seq_cst: partner is the RMW in event_prepare(). */
    if (atomic_fetch_add_explicit(&e->waiters, 0, memory_order_seq_cst) == 0)
        return false;
    atomic_fetch_add_explicit(&e->epoch, 1, memory_order_release);
    futex(&e->epoch, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), n > INT_MAX ? INT_MAX : n, NULL);
    return true;
}
