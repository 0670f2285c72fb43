/* SPDX-License-Identifier: Apache-2.0
 *
 * retry-after.c: estimates when a client that was refused for want of a place should try again, by how places became
 * free lately.
 * Owns nothing. [loop]
 * Keeps: the more clients wait, the later each is told to come, up to RETRY_AFTER_MOST_USEC. While no place becomes
 * free, the pauses grow. So all clients together ask about as often as places become free, and each costs one look.
 * Does not hold a place: the first client to come takes it. */
#include "sched/retry-after.h"

#include "base/cleanup.h"

uint64_t retry_after_refuse(struct retry_after *r, uint64_t now_usec)
{
    uint64_t every;

    if (!retry_after_is_wanted(r))
        *r = (struct retry_after){.freed_usec = now_usec,
                                  .every_usec = r->every_usec ? r->every_usec : RETRY_AFTER_FIRST_USEC};
    every = MAX(r->every_usec, now_usec - r->freed_usec);
    every = MIN(MAX(every, RETRY_AFTER_LEAST_USEC), RETRY_AFTER_MOST_USEC);
    r->due_usec = MIN(MAX(r->due_usec, now_usec) + every, now_usec + RETRY_AFTER_MOST_USEC);
    return r->due_usec - now_usec;
}

void retry_after_freed(struct retry_after *r, uint64_t now_usec)
{
    if (r->due_usec + RETRY_AFTER_MOST_USEC < now_usec) {
        r->due_usec = 0;
        return;
    }
    r->every_usec = (r->every_usec * 3 + (now_usec - r->freed_usec)) / 4;
    r->freed_usec = now_usec;
}
