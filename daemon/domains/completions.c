/* SPDX-License-Identifier: Apache-2.0
 *
 * completions.c: takes from the rings what an executor says of its jobs.
 * Owns nothing. [loop]
 * Keeps: what the executor says about a job is taken once.
 * Does not decide what becomes of jobs when the executor dies (recover.c). */
#include "domains/completions.h"

#include "base/log.h"
#include "domains/answer.h"
#include "domains/arena.h"
#include "domains/bundle.h"
#include "domains/direct-lane.h"
#include "domains/domain.h"
#include "domains/executors.h"
#include "domains/hand-over.h"
#include "domains/lifetime.h"
#include "domains/recycle.h"
#include "table/output.h"

#define BATCH       256u  /* completions a domain and turn of the loop; */
#define BATCH_BYTES 1024u /* so many bytes of output count as another one */

void domain_complete(struct domain *d, const struct front_completion *c)
{
    struct job *job = d->slots[c->slot];

    if (c->kind == COMPLETION_OUTPUT) {
        job = job ? bundle_alone(d, c->slot) : NULL;
        if (job)
            output_add_chunk(job, c);
        else
            front_release(d->front, c->chunk, c->run);
        return;
    }
    if (job && c->messages)
        executor_take_control(d->priv->executor);
    bool done = c->kind == COMPLETION_DONE && d->slots[c->slot];
    job = done ? bundle_settled(d, c) : NULL;
    uint32_t n = job ? job_count(job) : 1;
    d->slots[c->slot] = NULL;
    d->n_handed -= n;
    d->jobs->counters.n_handed -= n;
    if (job) {
        arena_returned(job);
        d->priv->useful = true;
        d->priv->n_deaths = 0;
    }
    if (job && job->bundled)
        bundle_done(d, job, c);
    else if (job)
        domain_done(job, c);
    if (c->kind == COMPLETION_DONE)
        front_go_on(d->front, c->slot);
    front_retire(d->front, c->slot);
    if (d->successor && !d->priv->runner && !d->n_handed && !lanes_running(d))
        domain_finish(d);
    else if (!d->n_handed && !d->queue.n)
        d->priv->has_ended = true;
    if (done)
        recycle_look(d, n);
}

bool domain_poll(struct domain *d)
{
    struct front_completion c;

    for (uint32_t i = 0;
         i < BATCH && d->jobs->executors->n_taken < DOMAINS_TAKE && d->priv->executor && !d->priv->distrusted;) {
        /* a job's packets come before its end: where they cannot be looked at, `bell` comes again */
        int r = executor_hears(d->priv->executor) ? front_next(d->front, &c) : FRONT_NONE;

        if (r == FRONT_E_LIES) {
            domain_distrust(d, "nonsense in its ring");
            return false;
        }
        if (r == FRONT_NONE) {
            if (i || d->priv->unpumped)
                domain_pump(d);
            return d->priv->unpumped;
        }
        uint32_t n = (d->slots[c.slot] ? job_count(d->slots[c.slot]) : 1) + (uint32_t)(c.size / BATCH_BYTES);
        i += n;
        d->jobs->executors->n_taken += n;
        d->jobs->executors->output += c.size;
        domain_complete(d, &c);
    }
    domain_pump(d);
    return d->priv->unpumped || (d->priv->executor && !d->priv->distrusted);
}
