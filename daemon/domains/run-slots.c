/* SPDX-License-Identifier: Apache-2.0
 *
 * run-slots.c: limits the jobs of all domains that are handed over at once (max-running).
 * Owns nothing. The rule by which a domain gets the next free run slot is in sched/fair-slots.c. [loop]
 * Without a free run slot all executors are as good as full. Jobs stay in the queues of their domains, and a domain
 * with a job that is ready waits for its turn. Only a hand-over takes a run slot. So no job holds one while it is
 * paused, waits at a gate, or waits for its executor or the disk.
 * Does not hand over, or order the jobs of one domain (sched/fair-queue.c). */
#include "domains/run-slots.h"

#include "base/cleanup.h"
#include "domains/domain.h"
#include "domains/recall-timer.h"
#include "sched/fair-slots.h"
#include "table/queue.h"

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
