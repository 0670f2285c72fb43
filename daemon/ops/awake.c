/* SPDX-License-Identifier: Apache-2.0
 *
 * awake.c: asks the kernel to keep idle CPUs from being halted, and takes it back.
 * Owns the descriptor of the request. The request ends with it, however wsd ends. [loop]
 * Keeps: the request ends within 10 ms once jobs have ceased to follow each other closely. Once direct calls have, it
 * ends within 0.3 s. An idle wsd has no timer.
 * Does not know what woke the loop. */
#include "ops/awake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"

#define DEVICE     "/dev/cpu_dma_latency"
#define LANES_UNIT 1000u      /* parts of a microsecond, for the time of calls */
#define NO_MATTER  2000000000 /* us: the kernel's own default, with which nothing is asked for */

struct awake {
    struct awake_policy policy;
    struct event *timer;
    int fd;
    bool held, told;
    uint64_t looked_usec, calls, wakes; /* of direct lanes */
};

/* --- when --------------------------------------------------------------------------------------------------------- */

static void rest(struct awake_policy *p)
{
    p->phase = AWAKE_REST;
    p->n = 0;
}

static void begin_phase(struct awake_policy *p, enum awake_phase phase, uint64_t now_usec)
{
    p->phase = phase;
    p->n = p->n_looked = 0;
    p->looked_usec = now_usec;
}

static void try_later(struct awake_policy *p, uint64_t now_usec)
{
    p->pause_usec = p->pause_usec ? MIN(p->pause_usec * 2, (uint64_t)AWAKE_RETRY_MAX_USEC) : AWAKE_RETRY_USEC;
    p->retry_usec = now_usec + p->pause_usec;
    rest(p);
}

/* A row of wake-ups, close enough to each other, has ended. */
static void row_ended(struct awake_policy *p, uint64_t now_usec, uint64_t took_usec)
{
    if (p->phase == AWAKE_PROBE) {
        if (took_usec * 4 > p->before_usec * 3) {
            try_later(p, now_usec);
            return;
        }
        p->pause_usec = 0;
        p->until_usec = now_usec + AWAKE_HOLD_USEC;
        begin_phase(p, AWAKE_HELD, now_usec);
    } else if (p->always || now_usec < p->until_usec) {
        begin_phase(p, AWAKE_HELD, now_usec);
    } else if (now_usec >= p->retry_usec) {
        p->before_usec = took_usec;
        begin_phase(p, AWAKE_PROBE, now_usec);
    } else {
        p->n = 0;
    }
}

bool awake_policy_woke(struct awake_policy *p, uint64_t now_usec)
{
    bool known = p->phase == AWAKE_REST && (p->always || now_usec < p->until_usec);
    uint32_t row = known ? AWAKE_AGAIN : AWAKE_WAKES;

    p->n_looked++;
    if (p->phase == AWAKE_PROBE && p->of_lanes)
        return true;
    if (p->phase == AWAKE_HELD && !p->always && now_usec >= p->until_usec)
        rest(p);
    if (p->phase == AWAKE_HELD)
        return true;
    if (p->n == 0 || now_usec - p->last_usec > AWAKE_BREAK_USEC) {
        p->n = 0;
        p->began_usec = now_usec;
    }
    p->last_usec = now_usec;
    if (p->n++ < row)
        return p->phase != AWAKE_REST;
    uint64_t took = now_usec - p->began_usec;
    if (took <= (uint64_t)row * AWAKE_GAP_USEC)
        row_ended(p, now_usec, took);
    else if (p->phase == AWAKE_PROBE)
        try_later(p, now_usec);
    else
        rest(p);
    return p->phase != AWAKE_REST;
}

/* In place of wake-ups in a row: the time of as many calls as there are wake-ups in one. What clients gain is calls, not
 * wake-ups, of which there are fewer where each answer comes at once. */
bool awake_policy_lanes(struct awake_policy *p, uint64_t now_usec, uint64_t usec, uint64_t calls, uint64_t wakes)
{
    bool dense = calls && wakes * AWAKE_GAP_USEC * (p->phase == AWAKE_REST ? 1 : 4) >= usec;

    if (!dense || (p->phase == AWAKE_PROBE && !p->of_lanes))
        return p->phase != AWAKE_REST;
    p->dense_usec = now_usec + 2 * AWAKE_LANES_USEC;
    if (p->phase == AWAKE_HELD && (p->always || now_usec < p->until_usec))
        return true;
    if (p->phase == AWAKE_HELD) {
        rest(p); /* the next span shows how it is without */
        return false;
    }
    p->of_lanes = true;
    row_ended(p, now_usec, usec * AWAKE_WAKES * LANES_UNIT / calls);
    p->of_lanes = p->phase == AWAKE_PROBE;
    return p->phase != AWAKE_REST;
}

bool awake_policy_look(struct awake_policy *p, uint64_t now_usec)
{
    uint64_t passed = now_usec - p->looked_usec, n = p->n_looked;

    if (p->phase == AWAKE_REST || passed < AWAKE_LOOK_USEC) /* libevent's clock is coarse */
        return p->phase != AWAKE_REST;
    p->n_looked = 0;
    p->looked_usec = now_usec;
    if (n * AWAKE_GAP_USEC >= passed || now_usec < p->dense_usec)
        return true;
    if (p->phase == AWAKE_PROBE) /* there was nothing to learn from */
        p->retry_usec = now_usec + AWAKE_RETRY_USEC;
    rest(p);
    return false;
}

/* --- how ---------------------------------------------------------------------------------------------------------- */

static void ask_kernel(struct awake *a, bool held)
{
    const struct timeval look = {.tv_usec = AWAKE_LOOK_USEC};
    int32_t usec = held ? 0 : NO_MATTER;

    if (a->held == held || a->fd < 0)
        return;
    if (!held)
        event_del(a->timer);
    else if (event_add(a->timer, &look) < 0)
        return; /* nothing would take it back */
    if (write(a->fd, &usec, sizeof(usec)) != sizeof(usec)) {
        log_warning("%s: %s: CPUs are halted as ever", DEVICE, strerror(errno));
        event_del(a->timer);
        a->fd = close_fd(a->fd);
        return;
    }
    a->held = held;
}

static void on_look(evutil_socket_t fd, short what, void *userdata)
{
    struct awake *a = userdata;

    ask_kernel(a, awake_policy_look(&a->policy, clock_monotonic_usec()));
}

static void tell(struct awake *a)
{
    if (!a->held || a->told || a->policy.phase != AWAKE_HELD) /* a probe is not worth a word */
        return;
    a->told = true;
    log_info("idle CPUs are kept awake while jobs follow each other closely; see keep-awake in wsd.conf(5)");
}

void awake_woke(struct awake *a)
{
    if (!a || a->fd < 0)
        return;
    ask_kernel(a, awake_policy_woke(&a->policy, clock_monotonic_usec()));
    tell(a);
}

void awake_lanes(struct awake *a, uint64_t looked_usec, uint64_t calls, uint64_t wakes)
{
    if (!a || a->fd < 0 || looked_usec == a->looked_usec)
        return;
    /* after a pause, what has come since is of the last span */
    uint64_t usec = MIN(looked_usec - a->looked_usec, (uint64_t)AWAKE_LANES_USEC);
    bool hold = awake_policy_lanes(&a->policy, looked_usec, usec, calls - a->calls, wakes - a->wakes);
    a->looked_usec = looked_usec;
    a->calls = calls;
    a->wakes = wakes;
    ask_kernel(a, hold);
    tell(a);
}

int awake_new(struct awake **ret, struct event_base *base, enum awake_mode mode)
{
    int unread; /* then it goes by the others */
    bool unwise = sysconf(_SC_NPROCESSORS_ONLN) > (long)AWAKE_CPUS || cpus_usable(&unread) < 2;

    *ret = NULL;
    if (mode == AWAKE_NO || (mode == AWAKE_AUTO && unwise))
        return 0;
    _cleanup_(close_fdp) int fd = open(DEVICE, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        log_write(mode == AWAKE_YES ? LOG_WARNING : LOG_DEBUG,
                  "idle CPUs cannot be kept awake: %s: %s; see keep-awake in wsd.conf(5)", DEVICE, strerror(errno));
        return 0;
    }
    struct awake *a = calloc(1, sizeof(*a));
    if (!a)
        return -ENOMEM;
    a->policy.always = mode == AWAKE_YES;
    a->fd = -1;
    a->timer = event_new(base, -1, EV_PERSIST, on_look, a);
    if (!a->timer) {
        awake_free(a);
        return -ENOMEM;
    }
    a->fd = TAKE_FD(fd);
    *ret = a;
    return 0;
}

struct awake *awake_free(struct awake *a)
{
    if (!a)
        return NULL;
    if (a->timer)
        event_free(a->timer);
    close_fd(a->fd);
    free(a);
    return NULL;
}
