/* SPDX-License-Identifier: Apache-2.0
 *
 * event.h: an eventcount on a futex: sleep until something changed, without a lock and without a lost wake-up.
 * (Two-phase wait as in Taskflow's notifier and Folly's EventCount; Vyukov's eventcount is the origin.)
 *
 * The waiter:   epoch = event_prepare(e);          announce
 *               if (there is work) event_cancel(e)  look again
 *               else event_wait(e, epoch, timeout)  commit
 * The notifier: makes the work visible, then event_notify(e, n).
 *
 * Why nothing is lost: event_prepare() increments `waiters` with a sequentially consistent RMW before the second look;
 * event_notify() runs a sequentially consistent fence after the work was published and before it reads `waiters`. In
 * the one total order either the notifier sees the waiter, and then bumps the epoch, so that the futex wait returns
 * or never starts; or the waiter's second look comes after the publication and sees the work.
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

struct event {
    _Atomic uint32_t epoch;   /* [atomic: event_wait's futex; bumped by every notify that saw a waiter] */
    _Atomic uint32_t waiters; /* [atomic: prepare/cancel/wait against notify] announced and not yet gone */
};

void event_init(struct event *e);

/* Announces a waiter; every prepare is followed by exactly one cancel or wait. [any] */
uint32_t event_prepare(struct event *e);
void event_cancel(struct event *e);

/* Sleeps until the epoch is no longer `epoch`, at most timeout_usec (UINT64_MAX: for ever). False: the time is up.
 * May return early for no reason. [any] */
bool event_wait(struct event *e, uint32_t epoch, uint64_t timeout_usec, bool shared);

/* Wakes at most n waiters; no system call where nobody waits. Returns whether a system call was made. [any] */
bool event_notify(struct event *e, uint32_t n, bool shared);

/* --- several at once ---------------------------------------------------------------------------------------------- */

#define EVENT_SET_MAX 128u /* as many as the kernel waits for at once */

/* Sleeping on several eventcounts: event_set_add() is event_prepare() for each of them, then look again, then cancel or
 * wait for all. Nothing is lost, by the same argument for each. Wake-ups of one sleeper on two of them at once are one:
 * who sleeps so looks everywhere when he wakes, and wakes another where something is left. [one thread] */
struct event_set {
    uint32_t n;
    struct event *events[EVENT_SET_MAX];
    uint32_t epochs[EVENT_SET_MAX];
    void *owners[EVENT_SET_MAX]; /* the caller's */
};

/* Whether this kernel can (Linux 5.16); else a set may have one event only. [any] */
bool event_set_available(void);
void event_set_init(struct event_set *s);
void event_set_add(struct event_set *s, struct event *e, void *owner);
void event_set_cancel(struct event_set *s);
void event_set_wait(struct event_set *s, bool shared);
/* Whether this one was notified since it was added. */
bool event_set_rang(const struct event_set *s, uint32_t index);
