/* SPDX-License-Identifier: Apache-2.0
 *
 * job-breaker.c: breaker.c for the job table: refusals and probes.
 * Owns nothing. [loop]
 * Keeps: of the jobs of a function in quarantine, only the probe reaches an executor. An accepted one ends as failed
 * with the words of the refusal, so that neither clients nor a drain wait for the quarantine.
 * Does not judge: breaker.c counts. */
#include "domains/job-breaker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "domains/owners.h"
#include "domains/plugin-lookup.h"
#include "domains/plugin-query.h"
#include "table/plugin-names.h"

/* NULL: no entry. Each job asks several times, so an entry that was not found is looked up again only when there is a
 * new one. */
static struct breaker *find(struct plugin *p, const char *function, uint64_t *innocent)
{
    const struct breakers *q = &p->domain->jobs->breakers;
    struct breaker *s = *innocent == q->n_added ? NULL : breaker_find(q, p->domain->key, p->request, function);

    if (!s)
        *innocent = q->n_added;
    return s;
}

static struct breaker *breaker_of_job(const struct job *job)
{
    struct plugin_function *f = job_function(job);

    return find(job->plugin, f->name, &f->innocent);
}

static bool crashed_of_late(struct plugin *p)
{
    return find(p, "", &p->innocent) != NULL;
}

bool job_breaker_apart(const struct job *job)
{
    return crashed_of_late(job->plugin);
}

/* The words of a refusal. They stay the same for a second, to make a flood of refusals cheap. */
static void words(const struct job *job, struct breaker *s, uint64_t now, char text[static JOB_TEXT])
{
    const char *name = job->plugin->request, *function = job_function(job)->name;
    uint64_t sec = s->until_usec > now ? (s->until_usec - now + 999999) / 1000000 : 0;
    char when[48];

    if (s->told && s->told_sec == sec && s->told_of_probe == !!s->probe) {
        memcpy(text, s->told, strlen(s->told) + 1);
        return;
    }
    if (s->probe)
        snprintf(when, sizeof(when), "a job of it runs on trial now");
    else
        snprintf(when, sizeof(when), "it is tried again in %llu s", (unsigned long long)sec);
    snprintf(text, JOB_TEXT,
             "in quarantine: crashed %u times, at last: %.44s; %s, or after `wsctl plugin release %.40s:%.40s`",
             s->n_all, s->why, when, strlen(name) <= 40 ? name : "PLUGIN", function);
    free(s->told);
    s->told = strdup(text);
    s->told_sec = sec;
    s->told_of_probe = s->probe;
}

bool job_breaker_refuses(struct job *job, char text[static JOB_TEXT], uint64_t *ret_retry_usec)
{
    struct breaker *s = breaker_of_job(job);
    uint64_t now = s ? clock_monotonic_usec() : 0;

    if (breaker_ask(s, job, now) != BREAKER_OPEN)
        return false;
    words(job, s, now, text);
    /* whole milliseconds: what the jobs of an array are told is the same, and is said once */
    *ret_retry_usec = !s->probe && s->until_usec > now ? (s->until_usec - now + 999) / 1000 * 1000 : 0;
    return true;
}

void job_breaker_try(struct job *job)
{
    struct breaker *s = breaker_of_job(job);

    if (s && breaker_ask(s, job, clock_monotonic_usec()) == BREAKER_PROBE) {
        log_notice("%s:%s: a job on trial", plugin_title(job->plugin), job_function(job)->name);
        breaker_try(s, job);
    }
}

void job_breaker_deaf(struct job *job)
{
    breaker_mark(&job->domain->jobs->breakers, job->plugin->domain->key, job->plugin->request, clock_monotonic_usec());
}

/* silent: its executor died without a note while nothing else ran. alone: nor had anything else ever run in it. */
static void count(const struct plugin *p, const struct plugin_function *f, const void *call, const char *why,
                  bool silent, bool alone)
{
    const struct jobs_limits *l = &p->domain->jobs->options.limits;
    const struct breaker_rules rules = {.after = l->quarantine_after, .max_usec = l->quarantine_max_usec};
    struct breakers *q = &p->domain->jobs->breakers;
    uint64_t now = clock_monotonic_usec(), owner = p->domain->key;

    if (!(silent ? breaker_silent(q, &rules, owner, p->request, f->name, call, alone, why, now)
                 : breaker_crashed(q, &rules, owner, p->request, f->name, call, why, now)))
        return;
    const struct breaker *s = breaker_find(q, owner, p->request, f->name);
    const struct log_about about = {.plugin = plugin_title(p), .function = f->name};
    log_event(LOG_KIND_QUARANTINE, LOG_WARNING, &about, "%s:%s crashed %u times: in quarantine for %llu s",
              plugin_title(p), f->name, s->n_all, (unsigned long long)((s->until_usec - now + 999999) / 1000000));
}

void job_breaker_function(const struct plugin *p, const struct plugin_function *f, const void *call, const char *why)
{
    count(p, f, call, why, false, false);
}

void job_breaker_crashed(struct job *job, const char *why)
{
    count(job->plugin, job_function(job), job, why, false, false);
}

void job_breaker_silent(struct job *job, bool alone, const char *why)
{
    count(job->plugin, job_function(job), job, why, true, alone);
}

void job_breaker_ended(struct job *job, bool went_well)
{
    struct breakers *q = &job->domain->jobs->breakers;

    if (!job_function(job) || (!breaker_of_job(job) && !(went_well && crashed_of_late(job->plugin))))
        return;
    if (breaker_ended(q, job->plugin->domain->key, job->plugin->request, job_function(job)->name, job, went_well))
        log_notice("%s:%s went well: out of quarantine", plugin_title(job->plugin), job_function(job)->name);
}

static void describe(const struct breaker *s, struct plugin_function_info *ret)
{
    uint64_t now = clock_monotonic_usec();

    ret->crashes = s->n_all;
    ret->why = s->why;
    ret->in_quarantine = s->until_usec != 0;
    ret->on_probe = s->probe != NULL;
    ret->quarantine_usec = s->until_usec > now ? s->until_usec - now : 0;
}

void job_breaker_describe(const struct plugin *p, const struct plugin_function *f, struct plugin_function_info *ret)
{
    const struct breaker *s = breaker_find(&p->domain->jobs->breakers, p->domain->key, p->request, f->name);

    if (s)
        describe(s, ret);
}

bool jobs_breaker(const struct jobs *jobs, uint32_t uid, const char *plugin, const char *function,
                  struct plugin_function_info *ret)
{
    const struct breaker *s = breaker_find(&jobs->breakers, domain_owner(jobs, uid), plugin, function);

    if (s)
        describe(s, ret);
    return s;
}

int jobs_plugin_release(struct jobs *jobs, uint32_t uid, bool all, const char *plugin, const char *function,
                        const struct directory *directory)
{
    _cleanup_(freep) char *request = NULL;
    int r = plugin_request(jobs, uid, plugin, directory, &request);

    if (r < 0)
        return r;
    if (breaker_release(&jobs->breakers, all, domain_owner(jobs, uid), request, function) == 0)
        return -ENOENT;
    const struct log_about about = {.plugin = plugin, .function = function, .uid = &uid};
    log_event(all ? LOG_KIND_ADMINISTRATOR : LOG_KIND_NONE, LOG_NOTICE, &about, "%s%s%s: released by uid %u", plugin,
              *function ? ":" : "", function, uid);
    return 0;
}
