/* SPDX-License-Identifier: Apache-2.0
 *
 * eventcount.h: an eventcount on a futex: sleep until something changed, without a lock and without a lost wake-up.
 * (Two-phase wait as in Taskflow's notifier and Folly's EventCount; Vyukov's eventcount is the origin.)
 *
 * The waiter:   epoch = eventcount_prepare(e);            announce
 *               if (there is work) eventcount_cancel(e);  look again
 *               else eventcount_wait(e, epoch, timeout);  commit
 * The notifier: makes the work visible, then eventcount_notify(e, n).
 *
 * Why nothing is lost: eventcount_prepare() increments `waiters` with a sequentially consistent RMW before the second
 * look; eventcount_notify() runs a sequentially consistent fence after the work was published and before it reads
 * `waiters`. In the one total order either the notifier sees the waiter, and then bumps the epoch, so that the futex
 * wait returns or never starts; or the waiter's second look comes after the publication and sees the work.
 *
 * May lie in memory shared between processes (shared = true at every call then). The other side may scribble over it:
 * the worst that follows is a wake-up too many or too few on the scribbler's own side.
 *
 *               | prepare/cancel/wait | notify
 *  prepare ...  |         yes         |  yes       any number of threads each
 *  notify       |         yes         |  yes
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct eventcount {
    _Atomic uint32_t epoch;   /* [atomic: eventcount_wait's futex; bumped by every notify that saw a waiter] */
    _Atomic uint32_t waiters; /* [atomic: prepare/cancel/wait against notify] announced and not yet gone */
};

void eventcount_init(struct eventcount *e);

/* Announces a waiter; every prepare is followed by exactly one cancel or wait. [any] */
uint32_t eventcount_prepare(struct eventcount *e);
void eventcount_cancel(struct eventcount *e);

/* Sleeps until the epoch is no longer `epoch`, at most timeout_usec (UINT64_MAX: for ever). False: the time is up.
 * May return early for no reason. [any] */
bool eventcount_wait(struct eventcount *e, uint32_t epoch, uint64_t timeout_usec, bool shared);

/* Wakes at most n waiters; no system call where nobody waits. Returns whether a system call was made. [any] */
bool eventcount_notify(struct eventcount *e, uint32_t n, bool shared);

/* --- several at once ---------------------------------------------------------------------------------------------- */

#define EVENTCOUNT_SET_MAX 128u /* as many as the kernel waits for at once */

/* Sleeping on several eventcounts: eventcount_set_add() is eventcount_prepare() for each of them, then look again, then
 * cancel or wait for all. Nothing is lost, by the same argument for each. Wake-ups of one sleeper on two of them at
 * once are one: who sleeps so looks everywhere when he wakes, and wakes another where something is left. [one
 * thread] */
struct eventcount_set {
    uint32_t n;
    struct eventcount *events[EVENTCOUNT_SET_MAX];
    uint32_t epochs[EVENTCOUNT_SET_MAX];
    void *owners[EVENTCOUNT_SET_MAX]; /* the caller's */
};

/* Whether this kernel can (Linux 5.16); else a set may have one event only. [any] */
bool eventcount_set_available(void);
void eventcount_set_init(struct eventcount_set *s);
void eventcount_set_add(struct eventcount_set *s, struct eventcount *e, void *owner);
void eventcount_set_cancel(struct eventcount_set *s);
void eventcount_set_wait(struct eventcount_set *s, bool shared);
/* Whether this one was notified since it was added. */
bool eventcount_set_rang(const struct eventcount_set *s, uint32_t index);
