/* SPDX-License-Identifier: Apache-2.0
 *
 * note.c: what a request is about to change, and for which person, is noted.
 * Owns nothing: actions.c keeps what is noted. [loop]
 * Keeps: a user's own business is noted only where the client names a person. What only administrators may do is noted
 * when others attempt it, too.
 * Does not know whether a request is granted. */
#include "frontend/note.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/log.h"
#include "frontend/access.h"
#include "proto/codec.h"

#define WORDS     768u
#define LOOK_COST 2000u /* in units of share.h, to find out which user a job is of */

/* The verb for what a request changes; NULL: it changes nothing, or only what is of its own connection. */
static const char *verb_of(const struct msg *m)
{
    static const char *const gates[] = {
        [GATE_PAUSE] = "pause", [GATE_RESUME] = "resume", [GATE_DRAIN] = "drain", [GATE_LIMIT] = "limit"};
    static const char *const dead[] = {[DEAD_REQUEUE] = "requeue", [DEAD_DROP] = "drop"};
    static const char *const schedules[] = {
        [SCHEDULE_ADD] = "schedule add", [SCHEDULE_REMOVE] = "schedule remove", [SCHEDULE_RUN] = "schedule run"};

    switch (m->type) {
    case FRAME_CANCEL:
        return m->id.has_id ? "cancel" : NULL;
    case FRAME_BATCH:
        return m->batch.action == BATCH_CANCEL ? "cancel" : NULL;
    case FRAME_CANCEL_WHERE:
        return "cancel many";
    case FRAME_DEAD:
        return m->dead.action == DEAD_LIST ? NULL : dead[m->dead.action];
    case FRAME_SCHEDULE:
        return m->schedule.action == SCHEDULE_LIST ? NULL : schedules[m->schedule.action];
    case FRAME_GATE:
        return m->gate.action == GATE_LIST ? NULL : gates[m->gate.action];
    case FRAME_LIMIT:
        return m->limit.flags & LIMIT_MOVED ? "limit" : NULL;
    case FRAME_RELEASE:
        return "release";
    case FRAME_RELOAD:
        return "reload";
    case FRAME_WORKERS:
        return m->workers.set ? "set workers" : NULL;
    default:
        return NULL;
    }
}

/* The job or batch that a request names; NULL: none. */
static const uint8_t *id_of(const struct msg *m)
{
    return m->type == FRAME_CANCEL  ? m->id.id
           : m->type == FRAME_BATCH ? m->batch.id.id
           : m->type == FRAME_DEAD  ? m->dead.id.id
                                    : NULL;
}

static void take_uid(const struct job_info *info, void *userdata)
{
    *(uint32_t *)userdata = info->uid;
}

/* False, too, where it is not known. */
static bool is_own(struct peer *p, const uint8_t id[16])
{
    struct jobs *jobs = p->frontend->options.jobs;
    uint32_t uid;
    struct batch_info batch;

    share_charge(p, LOOK_COST);
    if (jobs_info(jobs, id, ACCESS_ALL, take_uid, &uid) == 0)
        return uid == p->uid;
    return jobs_batch_info(jobs, id, ACCESS_ALL, &batch) == 0 && batch.uid == p->uid;
}

static bool reaches_others(struct peer *p)
{
    return access_cancels(p) == ACCESS_ALL;
}

static bool administers(struct peer *p)
{
    return !access_administer(p);
}

static bool is_noted(struct peer *p, const struct msg *m)
{
    if (p->person)
        return true;
    switch (m->type) {
    case FRAME_CANCEL:
    case FRAME_BATCH:
    case FRAME_DEAD:
        return reaches_others(p) && !is_own(p, id_of(m));
    case FRAME_CANCEL_WHERE:
        return reaches_others(p) && !(m->filter.by_uid && m->filter.uid == p->uid);
    case FRAME_SCHEDULE:
    case FRAME_RELEASE:
    case FRAME_RELOAD:
        return administers(p);
    default: /* what only administrators may do */
        return true;
    }
}

static void place_words(char words[static WORDS], struct span plugin, struct span function)
{
    snprintf(words, WORDS, "%.300s%s%.64s", plugin.data, function.size ? ":" : "", function.data);
}

static void filter_words(char words[static WORDS], const struct msg_filter *m)
{
    char place[WORDS], whose[32] = "";

    place_words(place, m->plugin, m->function);
    if (m->by_uid)
        snprintf(whose, sizeof(whose), " of user %u", m->uid);
    snprintf(words, WORDS, "jobs%s%s%.400s%s", whose, *place ? " of " : "", place, m->batch.size ? " of a batch" : "");
}

static void gate_words(char words[static WORDS], const struct msg_gate *m)
{
    char limit[16];
    size_t n;

    if (m->tag.size)
        snprintf(words, WORDS, "tag %.64s", m->tag.data);
    else
        place_words(words, m->plugin, m->function);
    n = strlen(words);
    snprintf(limit, sizeof(limit), "%u", m->limit);
    if (m->action == GATE_LIMIT)
        snprintf(words + n, WORDS - n, " = %s", m->limit ? limit : "none");
}

static void limit_words(char words[static WORDS], const struct msg_limit *m)
{
    char whose[32] = "";

    if (m->flags & LIMIT_OWN)
        snprintf(whose, sizeof(whose), " of user %u", m->uid);
    snprintf(words, WORDS, "%.64s%s = %.256s", m->key.data, whose, m->value.data);
}

/* What it is about; "" of everything. */
static void object_of(const struct msg *m, char words[static WORDS])
{
    const uint8_t *id = id_of(m);

    *words = 0;
    if (id)
        snprintf(words, WORDS, "%s " JOB_ID_FORMAT, m->type == FRAME_BATCH ? "batch" : "job", JOB_ID_ARGS(id));
    else if (m->type == FRAME_CANCEL_WHERE)
        filter_words(words, &m->filter);
    else if (m->type == FRAME_GATE)
        gate_words(words, &m->gate);
    else if (m->type == FRAME_LIMIT)
        limit_words(words, &m->limit);
    else if (m->type == FRAME_RELEASE)
        place_words(words, m->release.name, m->release.function);
    else if (m->type == FRAME_RELOAD)
        snprintf(words, WORDS, "%.300s", m->reload.name.data);
    else if (m->type == FRAME_SCHEDULE)
        snprintf(words, WORDS, "%.64s", m->schedule.name.data);
    else if (m->type == FRAME_WORKERS)
        snprintf(words, WORDS, "%u", m->workers.set);
}

void note_action(struct request *r)
{
    struct action a = {.verb = verb_of(r->msg)};
    struct peer *p = r->peer;
    char words[WORDS];

    if (!a.verb || !is_noted(p, r->msg))
        return;
    object_of(r->msg, words);
    escape_marked(a.object, sizeof(a.object), words);
    escape_marked(a.person, sizeof(a.person), p->person ? p->person : "");
    a.time_usec = clock_realtime_usec();
    a.uid = p->uid;
    a.trusted = administers(p) || reaches_others(p);
    r->action = actions_add(&p->frontend->actions, &a);
    if (p->person)
        log_event(LOG_KIND_PERSON, LOG_NOTICE, &(struct log_about){.uid = &p->uid},
                  "%s%s%s: asked for by user %u, who says for %s", a.verb, *a.object ? " " : "", a.object, p->uid,
                  a.person);
}
