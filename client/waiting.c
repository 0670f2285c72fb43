/* SPDX-License-Identifier: Apache-2.0
 *
 * waiting.c: what bounds the blocking calls of a handle: a deadline, and the program's wish to stop.
 * Owns nothing. One thread a handle.
 * Does not wait, and does not say what becomes of what was waited for. */
#include "waiting.h"

#include "base/cleanup.h"
#include "base/clock.h"

bool waiting_interrupted(const struct waiting *w)
{
    return w->interrupted && w->interrupted(w->userdata) != 0;
}

uint64_t deadline_in(uint64_t timeout_usec)
{
    if (timeout_usec == UINT64_MAX)
        return UINT64_MAX;
    uint64_t now = clock_monotonic_usec();

    return timeout_usec > UINT64_MAX - now ? UINT64_MAX : now + timeout_usec;
}

uint64_t waiting_deadline(const struct waiting *w, uint64_t timeout_usec)
{
    return deadline_in(timeout_usec == UINT64_MAX && w->deadline_usec ? w->deadline_usec : timeout_usec);
}

uint64_t waiting_for_job(const struct waiting *w, uint64_t timeout_usec, uint64_t own_usec, bool *ret_keeps)
{
    uint64_t given = own_usec ? deadline_in(timeout_usec) : waiting_deadline(w, timeout_usec);

    *ret_keeps = timeout_usec != UINT64_MAX && (!own_usec || given <= own_usec);
    return own_usec ? MIN(given, own_usec) : given;
}

uint64_t waiting_look(const struct waiting *w, uint64_t now_usec, uint64_t deadline_usec)
{
    return w->interrupted ? MIN(deadline_usec, now_usec + INTERRUPT_USEC) : deadline_usec;
}
