/* SPDX-License-Identifier: Apache-2.0
 *
 * run-slots.c: limits the jobs of all domains that are handed over at once (max-running), and chooses the domain that
 * gets the next free run slot.
 * Owns the list of domains that wait. [loop]
 * It works like an executor that is full: the jobs stay in the queues of their domains, and a domain with a job that is
 * ready waits for its turn. Only a hand-over takes a run slot. So no job holds one while it is paused, waits at a gate,
 * or waits for its executor or the disk.
 * Keeps: no domain passes those that wait. The highest priority goes first; then the user with the oldest last turn,
 * then the domain with it. Each AGEING_TURNS-th turn is for a lower priority that has waited for `ageing`.
 * Does not order the jobs of one domain (sched/fair-queue.c). */
#include "jobs/run-slots.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "jobs/domain.h"
#include "jobs/queue.h"

#define RUN_SLOTS_A_TURN 1024u /* of the loop */

static bool is_free(const struct jobs *jobs)
{
    return !jobs->options.limits.running || jobs->run_slots.n_running < jobs->options.limits.running;
}

static void wait(struct domain *d)
{
    struct jobs *jobs = d->jobs;

    jobs->run_slots.due |= is_free(jobs);
    if (!list_empty(&d->run_slot.waiting))
        return;
    list_push_back(&jobs->run_slots.waiting, &d->run_slot.waiting);
    if (d->n_handed < domain_workers(d))
        list_for_each_entry (struct domain, domain, &jobs->domains, link)
            recall_waits(domain, d);
}

bool run_slots_let(struct domain *d)
{
    bool turn = d->run_slot.has_turn;

    d->run_slot.has_turn = false;
    if (!d->jobs->options.limits.running || (is_free(d->jobs) && (turn || list_empty(&d->jobs->run_slots.waiting))))
        return true;
    wait(d);
    return false;
}

void run_slots_taken(struct domain *d, struct user *user)
{
    struct jobs *jobs = d->jobs;

    if (!jobs->options.limits.running)
        return;
    d->run_slot.placed = user->placed = ++jobs->run_slots.n_taken;
    jobs->run_slots.turns = (jobs->run_slots.turns + 1) % AGEING_TURNS;
}

void run_slots_left(struct jobs *jobs)
{
    jobs->run_slots.due |= !list_empty(&jobs->run_slots.waiting);
}

/* Whether a has its turn before b, at the same priority. */
static bool was_earlier(struct domain *a, struct domain *b)
{
    const struct user *of_a = queue_first(&a->queue)->user, *of_b = queue_first(&b->queue)->user;

    return of_a != of_b && of_a->placed != of_b->placed ? of_a->placed < of_b->placed
                                                        : a->run_slot.placed < b->run_slot.placed;
}

struct domain *run_slots_next(struct jobs *jobs, uint64_t before_usec)
{
    struct domain *best = NULL, *aged = NULL;

    list_for_each_entry_safe (struct domain, d, after_d, &jobs->run_slots.waiting, run_slot.waiting) {
        int priority, top;

        if (!queue_first(&d->queue)) { /* what waited was cancelled, or is at a gate now */
            list_remove(&d->run_slot.waiting);
            continue;
        }
        priority = queue_first(&d->queue)->priority;
        top = best ? queue_first(&best->queue)->priority : -101;
        if (priority > top || (priority == top && was_earlier(d, best)))
            best = d;
    }
    if (best && jobs->run_slots.turns == AGEING_TURNS - 1)
        list_for_each_entry (struct domain, d, &jobs->run_slots.waiting, run_slot.waiting) {
            const struct job *first = queue_first(&d->queue);

            if (first->priority < queue_first(&best->queue)->priority && first->accepted_usec <= before_usec &&
                (!aged || was_earlier(d, aged)))
                aged = d;
        }
    best = aged ? aged : best;
    if (best)
        list_remove(&best->run_slot.waiting);
    return best;
}

void run_slots_turn(struct jobs *jobs)
{
    uint64_t now, ageing = jobs->options.limits.ageing_usec;
    struct domain *d;

    if (!jobs->run_slots.due)
        return;
    now = clock_monotonic_usec();
    for (uint32_t i = 0;
         i < RUN_SLOTS_A_TURN && is_free(jobs) && (d = run_slots_next(jobs, now > ageing ? now - ageing : 0)); i++) {
        d->run_slot.has_turn = true;
        domain_pump(d);
        d->run_slot.has_turn = false;
    }
    jobs->run_slots.due = is_free(jobs) && !list_empty(&jobs->run_slots.waiting);
}
