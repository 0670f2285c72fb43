/* SPDX-License-Identifier: Apache-2.0
 *
 * awake.h: keeps idle CPUs from halting while jobs follow each other closely. [loop]
 *
 * Waking a thread on a halted CPU takes 25 to 60 us on a virtual machine. Where a CPU sleeps deeply, it takes up to 100
 * us. A call by socket consists of little but four such wake-ups in a row. The kernel takes requests for a latency (PM
 * QoS, /dev/cpu_dma_latency). With a latency of 0, a CPU without work polls for some in the kernel's idle loop. It
 * yields to whatever becomes ready at once, and needs no interrupt to wake up. That is worth the power only while
 * wake-ups follow each other closely and take long. So wsd asks for it only then, and only if a probe has shown that it
 * pays.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#define AWAKE_WAKES      256u   /* successive wake-ups of the loop from which their mean distance is taken */
#define AWAKE_GAP_USEC   400u   /* largest mean distance of two wake-ups; above it nothing is gained */
#define AWAKE_BREAK_USEC 10000u /* a pause after which earlier wake-ups do not count */
#define AWAKE_AGAIN      16u    /* the same number where it paid a moment ago */
/* while CPUs are kept awake: least time between two checks for a cause */
#define AWAKE_LOOK_USEC      2000u
#define AWAKE_LANES_USEC     100000u  /* between two looks at direct lanes */
#define AWAKE_HOLD_USEC      5000000u /* until the next probe */
#define AWAKE_RETRY_USEC     1000000u /* after a probe without success; doubled up to AWAKE_RETRY_MAX_USEC */
#define AWAKE_RETRY_MAX_USEC 64000000u
#define AWAKE_CPUS                                                                                                     \
    4u /* on more CPUs than these, keeping them awake burns more than one caller gains, so only the configuration can
        * turn it on. The same holds where wsd has only one CPU: the threads that it wakes share that CPU, and the user
        * that confined wsd to it wants the others left alone */

/* [pool] keep-awake; in the order of KIND_AUTO. */
enum awake_mode { AWAKE_AUTO, AWAKE_YES, AWAKE_NO };

enum awake_phase { AWAKE_REST, AWAKE_PROBE, AWAKE_HELD };

/* Decides when to ask; uses no clock and no device. Zeroed: nothing has happened. */
struct awake_policy {
    enum awake_phase phase;
    bool always;       /* ask without a probe */
    bool of_lanes;     /* the probe is about direct calls */
    uint32_t n;        /* wake-ups in this row */
    uint32_t n_looked; /* wake-ups since the last check, which was at looked_usec */
    uint64_t looked_usec;
    uint64_t began_usec, last_usec; /* begin and last wake-up of the row */
    uint64_t before_usec;           /* duration of a row with CPUs that halt */
    uint64_t until_usec;            /* a probe counts as valid until then */
    uint64_t retry_usec, pause_usec;
    uint64_t dense_usec; /* direct calls count as close to each other until then */
};

/* The loop was woken from its sleep at that time (CLOCK_MONOTONIC). Returns whether to keep CPUs awake from now on. */
bool awake_policy_woke(struct awake_policy *p, uint64_t now_usec);
/* Since the last call, `usec` ago, clients in direct lanes made so many calls and were woken so often. Returns whether to
 * keep CPUs awake from now on. */
bool awake_policy_lanes(struct awake_policy *p, uint64_t now_usec, uint64_t usec, uint64_t calls, uint64_t wakes);
/* Called now and then while CPUs are kept awake. Returns whether to go on. */
bool awake_policy_look(struct awake_policy *p, uint64_t now_usec);

struct awake;

/* Sets *ret to NULL where it is not wanted or this wsd has no right to ask; with AWAKE_YES the reason is logged.
 * Returns 0 or -ENOMEM. */
int awake_new(struct awake **ret, struct event_base *base, enum awake_mode mode);
struct awake *awake_free(struct awake *a); /* NULL is fine; returns NULL */
/* Called whenever the loop has slept. NULL is fine. */
void awake_woke(struct awake *a);
/* Called whenever the loop has slept: calls in direct lanes, and times that their clients were woken, since the start, as
 * last looked at then. NULL is fine. */
void awake_lanes(struct awake *a, uint64_t looked_usec, uint64_t calls, uint64_t wakes);
