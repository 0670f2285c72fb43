/* SPDX-License-Identifier: Apache-2.0
 *
 * eventcount.h: an eventcount on a futex: sleeps until something changed, without a lock and without a lost wake-up.
 * (Two-phase wait as in Taskflow's notifier and Folly's EventCount; Vyukov's eventcount is the origin.)
 *
 *  The waiter:   epoch = eventcount_prepare(e);            announce
 *                if (there is work) eventcount_cancel(e);  look again
 *                else eventcount_wait(e, epoch, timeout);  commit
 *  The notifier: makes the work visible, then eventcount_notify(e, n).
 *
 * A watch is a second kind of sleeper. A notify wakes it only if it finds no waiter, or wakes all. So a watch takes no
 * wake-up from a waiter, and hears of work that no waiter will see. It sleeps on a set, and announces itself by a bit in
 * `waiters`. Programs that do not know the bit take it for waiters, and make a system call for nothing.
 *
 * Why no wake-up is lost: eventcount_prepare() increments `waiters` with a sequentially consistent RMW before the
 * second look. The notifier, eventcount_notify(), runs a sequentially consistent fence after the work was published and
 * before it reads `waiters`. In the one total order there are two cases. Either the notifier sees the waiter and bumps
 * the epoch; then the futex wait returns or never starts. Or the waiter's second look comes after the publication and
 * sees the work.
 *
 * May lie in memory shared between processes (shared = true at every call then). If the other side scribbles over it,
 * the worst result is a wake-up too many or too few on the scribbler's own side.
 *
 *                | prepare/cancel/wait | notify
 *   prepare ...  |         yes         |  yes       any number of threads each
 *   notify       |         yes         |  yes
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EVENTCOUNT_WATCHED (1u << 31)            /* in waiters: a watch sleeps, or is about to */
#define EVENTCOUNT_WAITERS (~EVENTCOUNT_WATCHED) /* in waiters: the number of waiters */

struct eventcount {
    _Atomic uint32_t epoch; /* [atomic: eventcount_wait's futex; bumped by every notify that saw a waiter] */
    /* [atomic: prepare/cancel/wait against notify; a watch's futex] announced and not yet gone; a watch's bit */
    _Atomic uint32_t waiters;
};

void eventcount_init(struct eventcount *e);

/* Announces a waiter; every prepare is followed by exactly one cancel or wait. [any] */
uint32_t eventcount_prepare(struct eventcount *e);
void eventcount_cancel(struct eventcount *e);

/* Sleeps until the epoch differs from `epoch`, at most timeout_usec (UINT64_MAX: for ever). False: the time is up. May
 * return early for no reason. [any] */
bool eventcount_wait(struct eventcount *e, uint32_t epoch, uint64_t timeout_usec, bool shared);

/* Wakes at most n waiters. UINT32_MAX: all, and a watch. Without a waiter it wakes a watch. Makes no system call if there
 * is neither. Returns whether there was a waiter. [any] */
bool eventcount_notify(struct eventcount *e, uint32_t n, bool shared);

/* Wakes a watch, if there is one. [any] */
void eventcount_wake_watch(struct eventcount *e, bool shared);

/* --- several at once ---------------------------------------------------------------------------------------------- */

#define EVENTCOUNT_SET_MAX 128u /* as many as the kernel waits for at once */

/* Sleeps on several eventcounts. Call eventcount_set_add() for each, which does eventcount_prepare(). Then look again,
 * then cancel or wait for all. No wake-up is lost, by the same argument for each. Wake-ups of one sleeper on two
 * eventcounts at once count as one. So a thread that sleeps on a set must look everywhere when it wakes, and wake
 * another if something is left. [one thread] */
struct eventcount_set {
    uint32_t n;
    bool watch; /* it sleeps as a watch */
    struct eventcount *events[EVENTCOUNT_SET_MAX];
    uint32_t epochs[EVENTCOUNT_SET_MAX];
    void *owners[EVENTCOUNT_SET_MAX]; /* the caller's */
};

/* Whether this kernel can wait for several (Linux 5.16). If not, a set may have one event only. [any] */
bool eventcount_set_available(void);
void eventcount_set_init(struct eventcount_set *s);
/* The same, for a watch. An eventcount has one watch at most at a time. */
void eventcount_set_init_watch(struct eventcount_set *s);
void eventcount_set_add(struct eventcount_set *s, struct eventcount *e, void *owner);
void eventcount_set_cancel(struct eventcount_set *s);
void eventcount_set_wait(struct eventcount_set *s, bool shared);
/* Whether this one was notified since it was added. Of a watch: false. */
bool eventcount_set_rang(const struct eventcount_set *s, uint32_t index);
