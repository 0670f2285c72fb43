/* SPDX-License-Identifier: Apache-2.0
 *
 * awake.h: idle CPUs that are not halted, while jobs follow each other closely. [loop]
 *
 * To wake a thread on a CPU that is halted takes 25 to 60 us on a virtual machine, and up to 100 us where a CPU sleeps
 * deeply. A call by socket is four such wake-ups one behind the other, and little else. The kernel takes requests for a
 * latency (PM QoS, /dev/cpu_dma_latency): with one of 0 a CPU without work looks for some in the kernel's own idle
 * loop, gives way to whatever becomes ready at once, and needs no interrupt to be woken. That is worth what it burns
 * only while wake-ups come one behind the other, and where they take long; so it is asked for only then, and only where
 * a probe has shown that it pays.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#define AWAKE_WAKES      256u   /* of the loop, in a row, by which it is known how close they come */
#define AWAKE_GAP_USEC   400u   /* between two of them, in the mean: what comes less often pays for nothing */
#define AWAKE_BREAK_USEC 10000u /* without any: what came before says nothing */
#define AWAKE_AGAIN      16u    /* wake-ups, where it was worth it a moment ago */
/* while CPUs are kept awake: how often it is looked, at most, whether there is cause */
#define AWAKE_LOOK_USEC      2000u
#define AWAKE_HOLD_USEC      5000000u /* until it is tried anew */
#define AWAKE_RETRY_USEC     1000000u /* after a probe without success; doubled up to */
#define AWAKE_RETRY_MAX_USEC 64000000u
#define AWAKE_CPUS                                                                                                     \
    4u /* more of them burn more than one caller gains: there it is done only where the configuration says so, as
                                   * where wsd has but one: what it has to wake is on that one, and who put it there
                                   * wants the others left alone */

/* [pool] keep-awake; in the order of KIND_AUTO. */
enum awake_mode { AWAKE_AUTO, AWAKE_YES, AWAKE_NO };

enum awake_phase { AWAKE_REST, AWAKE_PROBE, AWAKE_HELD };

/* When to ask for it; knows no clock and no device. Zeroed: nothing has happened. */
struct awake_policy {
    enum awake_phase phase;
    bool always;       /* without a probe */
    uint32_t n;        /* wake-ups of this row */
    uint32_t n_looked; /* since the last look, which was at */
    uint64_t looked_usec;
    uint64_t began_usec, last_usec; /* of the row */
    uint64_t before_usec;           /* how long a row took with CPUs halted */
    uint64_t until_usec;            /* it pays until then */
    uint64_t retry_usec, pause_usec;
};

/* The loop was woken from its sleep at that time (CLOCK_MONOTONIC). Returns whether CPUs are to be awake from now
 * on. */
bool awake_policy_woke(struct awake_policy *p, uint64_t now_usec);
/* Now and then, as long as they are. Returns whether they still are to be. */
bool awake_policy_look(struct awake_policy *p, uint64_t now_usec);

struct awake;

/* NULL in *ret: not wanted, or this wsd has no right to ask; with AWAKE_YES it is logged why. 0 or -ENOMEM. */
int awake_new(struct awake **ret, struct event_base *base, enum awake_mode mode);
struct awake *awake_free(struct awake *a); /* NULL */
/* Whenever the loop has slept. NULL is fine. */
void awake_woke(struct awake *a);
