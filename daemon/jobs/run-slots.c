/* SPDX-License-Identifier: Apache-2.0
 *
 * run-slots.c: limits the jobs of all domains that are handed over at once (max-running).
 * Owns nothing; sched/fair-slots.c has the rule by which a domain gets the next free run slot. [loop]
 * It works like an executor that is full: the jobs stay in the queues of their domains, and a domain with a job that is
 * ready waits for its turn. Only a hand-over takes a run slot. So no job holds one while it is paused, waits at a gate,
 * or waits for its executor or the disk.
 * Keeps: an aged job is one that has waited for `ageing`.
 * Does not order the jobs of one domain (sched/fair-queue.c). */
#include "jobs/run-slots.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "jobs/domain.h"
#include "jobs/queue.h"
#include "jobs/recall-timer.h"
#include "sched/fair-slots.h"

#define RUN_SLOTS_A_TURN 1024u /* of the loop */

bool run_slots_let(struct domain *d)
{
    struct jobs *jobs = d->jobs;
    bool waited = !list_empty(&d->run_slot.waiting);

    if (fair_slots_let(&jobs->run_slots, &d->run_slot, jobs->options.limits.running))
        return true;
    if (!waited && d->n_handed < domain_workers(d))
        list_for_each_entry (struct domain, domain, &jobs->domains, link)
            recall_waits(domain, d);
    return false;
}

void run_slots_taken(struct domain *d, struct user *user)
{
    if (d->jobs->options.limits.running)
        fair_slots_taken(&d->jobs->run_slots, &d->run_slot, &user->placed);
}

static bool wish_of(const struct slot_waiter *w, struct slot_wish *ret)
{
    const struct domain *d = container_of(w, const struct domain, run_slot);
    const struct job *first = queue_first(&d->queue);

    if (!first) /* what waited was cancelled, or is at a gate now */
        return false;
    *ret = (struct slot_wish){.owner = first->user,
                              .owner_placed = first->user->placed,
                              .since_usec = first->accepted_usec,
                              .priority = first->priority};
    return true;
}

struct domain *run_slots_next(struct jobs *jobs, uint64_t before_usec)
{
    struct slot_waiter *w = fair_slots_next(&jobs->run_slots, before_usec, wish_of);

    return w ? container_of(w, struct domain, run_slot) : NULL;
}

void run_slots_turn(struct jobs *jobs)
{
    uint64_t now, ageing = jobs->options.limits.ageing_usec, limit = jobs->options.limits.running;
    struct fair_slots *s = &jobs->run_slots;
    struct domain *d;

    if (!s->due)
        return;
    now = clock_monotonic_usec();
    for (uint32_t i = 0; i < RUN_SLOTS_A_TURN && fair_slots_free(s, limit) &&
                         (d = run_slots_next(jobs, now > ageing ? now - ageing : 0));
         i++) {
        d->run_slot.has_turn = true;
        domain_pump(d);
        d->run_slot.has_turn = false;
    }
    s->due = fair_slots_free(s, limit) && !list_empty(&s->waiting);
}
