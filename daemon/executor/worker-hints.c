/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-hints.c: what a worker guesses of the next microseconds.
 * Owns a few thread-local words. [worker]
 * Keeps: a wrong guess costs time and nothing else. */
#include "executor/worker-hints.h"

#include <sched.h>
#include <stdint.h>

#include "base/clock.h"

#define TAKEN_USEC 300u /* a yield takes this long only if unrelated threads want the CPU */
#define CALM       256u /* number of yields that are left out after that */

static _Thread_local bool brief;
static _Thread_local bool spins;
/* This worker was woken, and has run nothing since. */
static _Thread_local bool was_asleep;
static _Thread_local uint32_t n_calm; /* yields still to be left out */

void hints_set_brief(bool is_brief)
{
    brief = is_brief;
}

bool hints_brief(void)
{
    return brief;
}

void hints_begun(void)
{
    brief = false;
}

void hints_not_direct(void)
{
    spins = false;
    was_asleep = false;
}

bool hints_may_spin(void)
{
    return spins;
}

void hints_no_spin(void)
{
    spins = false;
}

void hints_slept(bool woken)
{
    was_asleep = woken;
}

/* A client that does not sleep when its just woken worker has answered may have been interrupted on this CPU by that.
 * It would get the CPU back only after this worker has looked for more and sleeps (13 us for a call instead of 9). */
void hints_answered(bool woke)
{
    bool first = was_asleep;

    spins = true;
    was_asleep = false;
    if (!first || woke)
        return;
    if (n_calm) {
        n_calm--;
        return;
    }
    uint64_t begin = clock_monotonic_usec();
    sched_yield();
    if (clock_monotonic_usec() - begin >= TAKEN_USEC)
        n_calm = CALM;
}
