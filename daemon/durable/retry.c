/* SPDX-License-Identifier: Apache-2.0
 *
 * retry.c: keys and retries: a job that is submitted twice is the same one; a job that ends badly is retried.
 * Owns struct policy and the table of keys. [loop]
 * Keeps: a user's key names one job as long as that job is known. A job that will be retried tells its watches neither
 * this end nor any of its output.
 * Does not write to the disk (durable.c). */
#include "durable/retry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/job-breaker.h"
#include "durable/durable.h"
#include "table/output.h"
#include "table/state.h"
#include "table/timing.h"

static uint64_t key_of(uint32_t uid, const char *key)
{
    return hash_text(uid, key, strlen(key));
}

struct job *key_find(struct jobs *jobs, uint32_t uid, const char *key)
{
    for (struct hash_link *l = hash_first(&jobs->durable->keys, key_of(uid, key)); l; l = hash_next(l)) {
        struct policy *p = container_of(l, struct policy, by_key);

        if (p->job->user->uid == uid && strcmp(p->key, key) == 0)
            return p->job;
    }
    return NULL;
}

int policy_make(struct job *job, const struct job_request *r)
{
    struct job_more *m = job_more(job);
    struct policy *p = m ? calloc(1, sizeof(*p)) : NULL;

    if (!p || (r->retries && !time_make(job))) { /* there will be pauses */
        free(p);
        return -ENOMEM;
    }
    list_init(&p->requests);
    list_init(&p->stored);
    p->job = job;
    p->durable = r->durable;
    p->timeout_usec = r->timeout_usec;
    p->retries = r->retries;
    p->retry_on = r->retry_on ? r->retry_on : RETRY_ON;
    p->retry_usec = r->retry_usec ? r->retry_usec : RETRY_FIRST_USEC;
    m->policy = p;
    if (!r->key || !*r->key)
        return 0;
    p->key = strdup(r->key);
    if (p->key && hash_insert(&job->domain->jobs->durable->keys, &p->by_key, key_of(r->uid, r->key)) == 0)
        return 0;
    free(TAKE(p->key));
    return -ENOMEM;
}

void policy_free(struct job *job)
{
    struct policy *p = job_policy(job);

    if (!p)
        return;
    if (p->key)
        hash_remove(&job->domain->jobs->durable->keys, &p->by_key);
    results_remove(job);
    list_for_each_safe (l, n, &p->requests) {
        container_of(l, struct disk_request, link)->job = NULL;
        list_remove(l);
    }
    free(p->key);
    free(p);
    job->more->policy = NULL;
}

/* The pause doubles with each try. It is shortened at random by up to a half, so that jobs that failed together do not
 * come back together. */
static uint64_t pause_of(const struct policy *p)
{
    uint64_t pause = MIN(p->retry_usec << MIN(p->retried, 20u), MAX(RETRY_MAX_USEC, p->retry_usec)), chance = 0;

    if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) < 0)
        chance = hash_mix(clock_monotonic_usec());
    return MAX(pause - chance % (pause / 2 + 1), 1u);
}

bool retry_again(struct job *job, enum job_state state, int exit, const char *error, const struct front_completion *c)
{
    struct policy *p = job_policy(job);
    struct job_more *m = job->more;
    uint64_t pause;

    if (!p || p->retried >= p->retries || !(p->retry_on >> state & 1) || job_time(job)->waited)
        return false;
    if (m->stop == STOP_CANCEL || m->no_retry) /* however it has ended then */
        return false;
    if (job->domain->jobs->draining && !p->durable)
        return false;
    if (state != JOB_CRASHED)
        job_breaker_ended(job, c && state == JOB_FAILED);
    pause = pause_of(p);
    output_absorb(job);
    output_discard(job);
    if (m->timer)
        evtimer_del(m->timer);
    m->stop = STOP_NONE;
    char *words = job_words(error ? error : ""); /* it may be the old one */
    job_words_free(m->error);
    m->error = words;
    free(TAKE(m->backtrace));
    if (job->domain->successor) /* its own does not last */
        job->domain = job->domain->successor;
    job->flags &= (uint8_t) ~(JOB_KILLED | JOB_TRUNCATED | JOB_DELIVERED);
    p->attempts_before += job->attempts;
    job->attempts = 0;
    p->retried++;
    p->last_state = (uint8_t)state;
    p->last_exit = exit;
    job->domain->jobs->counters.retried++;
    job_move(job, JOB_DELAYED);
    time_pause(job, pause);
    if (p->durable)
        durable_retry(job);
    return true;
}

void retry_drain(struct job *job)
{
    struct policy *p = job_policy(job);

    if (!p || !p->retried) {
        job_finish(job, JOB_INTERRUPTED, CODE_INTERRUPTED, "wsd was ended before it was due", NULL);
        return;
    }
    char *words = job_words(job->more->error ? job->more->error : "");

    job_finish(job, (enum job_state)p->last_state, p->last_exit, words, NULL);
    job_words_free(words);
}
