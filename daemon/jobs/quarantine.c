/* SPDX-License-Identifier: Apache-2.0
 *
 * quarantine.c: functions that crash again and again, and plugins that have to prove themselves.
 * Owns one entry for each that has crashed of late. [loop]
 * Keeps: in quarantine at most one job of a function is under way; a pause is never shorter than the one before until it
 * has been quiet for a while; the table has a limit, and forgets the one that crashed longest ago.
 * Does not know jobs, executors or clocks: it is told. */
#include "jobs/quarantine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SILENT_MIN 2u /* one death that nobody explained says nothing */

static uint64_t key_of(uint64_t owner, const char *request, const char *function)
{
    return hash_text(hash_text(owner, request, strlen(request)), function, strlen(function));
}

struct suspect *quarantine_find(const struct quarantine *q, uint64_t owner, const char *request, const char *function)
{
    if (quarantine_is_empty(q))
        return NULL;
    for (struct hash_link *l = hash_first(&q->suspects, key_of(owner, request, function)); l; l = hash_next(l)) {
        struct suspect *s = container_of(l, struct suspect, link);

        if (s->owner == owner && strcmp(s->request, request) == 0 && strcmp(s->function, function) == 0)
            return s;
    }
    return NULL;
}

static void suspect_free(struct quarantine *q, struct suspect *s)
{
    hash_remove(&q->suspects, &s->link);
    free(s->request);
    free(s->function);
    free(s->told);
    free(s);
}

/* Calls each() for every entry, which may free it. */
static void walk(struct quarantine *q, void (*each)(struct quarantine *q, struct suspect *s, void *userdata),
                 void *userdata)
{
    for (size_t i = 0; i < q->suspects.n_buckets; i++)
        for (struct hash_link *l = q->suspects.buckets[i], *next; l; l = next) {
            next = l->next;
            each(q, container_of(l, struct suspect, link), userdata);
        }
}

static void free_each(struct quarantine *q, struct suspect *s, void *userdata)
{
    suspect_free(q, s);
}

void quarantine_deinit(struct quarantine *q)
{
    walk(q, free_each, NULL);
    hash_deinit(&q->suspects);
}

struct holdings {
    uint64_t owner;
    uint32_t n;
    struct suspect *oldest; /* NULL: none that could go */
};

static void add_up(struct quarantine *q, struct suspect *s, void *userdata)
{
    struct holdings *h = userdata;

    if (s->owner != h->owner)
        return;
    h->n++;
    if (!s->trial && (!h->oldest || s->last_usec < h->oldest->last_usec))
        h->oldest = s;
}

/* Only what is his own gives way. */
static bool make_room(struct quarantine *q, uint64_t owner)
{
    struct holdings h = {.owner = owner};

    if (q->suspects.n < QUARANTINE_OWN)
        return true;
    walk(q, add_up, &h);
    if (h.n < QUARANTINE_OWN && q->suspects.n < QUARANTINE_ENTRIES)
        return true;
    if (h.oldest)
        suspect_free(q, h.oldest);
    return h.oldest;
}

/* NULL: no memory, or no room: then it goes uncounted. */
static struct suspect *suspect_get(struct quarantine *q, uint64_t owner, const char *request, const char *function)
{
    struct suspect *s = quarantine_find(q, owner, request, function);

    if (s)
        return s;
    s = make_room(q, owner) ? calloc(1, sizeof(*s)) : NULL;
    if (!s)
        return NULL;
    s->owner = owner;
    s->request = strdup(request);
    s->function = strdup(function);
    if (!s->request || !s->function || hash_insert(&q->suspects, &s->link, key_of(owner, request, function)) < 0) {
        free(s->request);
        free(s->function);
        free(s);
        return NULL;
    }
    q->n_added++;
    return s;
}

/* What was told of it is not true any more. */
static void changed(struct suspect *s)
{
    free(TAKE(s->told));
}

static uint64_t pause_of(const struct quarantine_rules *rules, uint32_t n_pauses)
{
    uint64_t usec = QUARANTINE_FIRST_USEC;

    while (n_pauses-- > 1 && usec < rules->max_usec)
        usec *= 2;
    return MIN(usec, rules->max_usec);
}

void quarantine_mark(struct quarantine *q, uint64_t owner, const char *request, uint64_t now_usec)
{
    struct suspect *plugin = suspect_get(q, owner, request, "");

    if (!plugin)
        return;
    plugin->n_good = 0;
    plugin->last_usec = now_usec;
}

/* A death after a long quiet begins anew. */
static void forget_old(struct suspect *s, const struct quarantine_rules *rules, uint64_t now_usec)
{
    uint64_t quiet = now_usec - s->last_usec, pause = s->n_pauses ? pause_of(rules, s->n_pauses) : 0;

    if (quiet <= QUARANTINE_WINDOW_USEC + pause)
        return;
    s->n_crashes = s->n_silent = s->n_all = s->n_pauses = 0;
    s->until_usec = 0;
}

bool quarantine_crashed(struct quarantine *q, const struct quarantine_rules *rules, uint64_t owner,
                        const char *request, const char *function, const void *job, const char *why, uint64_t now_usec)
{
    quarantine_mark(q, owner, request, now_usec);
    struct suspect *s = suspect_get(q, owner, request, function);
    if (!s)
        return false;
    forget_old(s, rules, now_usec);
    s->n_crashes++;
    s->n_all++;
    s->last_usec = now_usec;
    snprintf(s->why, sizeof(s->why), "%s", why);
    changed(s);
    bool trial_failed = s->trial == job && job, over = !s->until_usec && s->n_crashes >= rules->after;
    if (trial_failed)
        s->trial = NULL;
    if (!trial_failed && !over) /* one that was under way when the pause began makes it no longer */
        return false;
    s->n_crashes = 0;
    s->n_pauses++;
    s->until_usec = now_usec + pause_of(rules, s->n_pauses);
    return true;
}

bool quarantine_silent(struct quarantine *q, const struct quarantine_rules *rules, uint64_t owner, const char *request,
                       const char *function, const void *job, bool alone, const char *why, uint64_t now_usec)
{
    struct suspect *s = suspect_get(q, owner, request, function);

    if (!s)
        return false;
    forget_old(s, rules, now_usec);
    bool enough = s->n_silent + 1 >= MAX(rules->after, (uint64_t)SILENT_MIN) || (job && s->trial == job);
    if (!alone || !enough) {
        s->n_silent++;
        s->n_all++;
        s->last_usec = now_usec;
        if (s->n_silent >= SILENT_MIN)
            quarantine_mark(q, owner, request, now_usec);
        snprintf(s->why, sizeof(s->why), "%s", why);
        changed(s);
        return false;
    }
    s->n_silent = 0;
    s->n_crashes = (uint32_t)MAX(rules->after, (uint64_t)1) - 1; /* and this one */
    return quarantine_crashed(q, rules, owner, request, function, job, why, now_usec);
}

enum quarantine_answer quarantine_ask(const struct suspect *s, const void *job, uint64_t now_usec)
{
    if (!s || !s->until_usec)
        return QUARANTINE_FREE;
    if (s->trial)
        return s->trial == job ? QUARANTINE_FREE : QUARANTINE_REFUSED;
    return now_usec >= s->until_usec ? QUARANTINE_TRIAL : QUARANTINE_REFUSED;
}

void quarantine_try(struct suspect *s, const void *job)
{
    s->trial = job;
}

bool quarantine_ended(struct quarantine *q, uint64_t owner, const char *request, const char *function, const void *job,
                      bool went_well)
{
    if (quarantine_is_empty(q))
        return false;
    struct suspect *s = quarantine_find(q, owner, request, function);
    struct suspect *plugin = went_well ? quarantine_find(q, owner, request, "") : NULL;
    bool tried = s && s->trial == job;

    if (tried)
        s->trial = NULL; /* where it did not go well, nothing is known, and the next one is let through */
    if (tried && went_well) {
        s->until_usec = 0;
        changed(s);
        s->n_crashes = s->n_all = 0; /* n_pauses stays for a while: the next quarantine begins where this one ended */
    }
    if (s && went_well && s->n_silent) {
        s->n_all -= MIN(s->n_all, s->n_silent);
        s->n_silent = 0;
        changed(s);
    }
    if (plugin && ++plugin->n_good >= QUARANTINE_PROOF)
        suspect_free(q, plugin);
    return tried && went_well;
}

bool quarantine_apart(const struct quarantine *q, uint64_t owner, const char *request)
{
    return quarantine_find(q, owner, request, "") != NULL;
}

struct release {
    bool any_owner;
    uint64_t owner;
    const char *request, *function;
    size_t n;
};

static void release_each(struct quarantine *q, struct suspect *s, void *userdata)
{
    struct release *r = userdata;
    bool is_plugin = !*s->function;

    if ((!r->any_owner && s->owner != r->owner) || strcmp(s->request, r->request) != 0 ||
        (*r->function && strcmp(s->function, r->function) != 0))
        return;
    r->n += !is_plugin;
    suspect_free(q, s);
}

size_t quarantine_release(struct quarantine *q, bool any_owner, uint64_t owner, const char *request,
                          const char *function)
{
    struct release r = {any_owner, owner, request, function, 0};

    walk(q, release_each, &r);
    return r.n;
}
