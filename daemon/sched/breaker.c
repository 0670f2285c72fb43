/* SPDX-License-Identifier: Apache-2.0
 *
 * breaker.c: functions that crash again and again, and plugins that have to prove themselves.
 * Owns one entry for each function or plugin that has crashed of late. [loop]
 * Keeps: in quarantine at most one job of a function is under way. A pause is never shorter than the one before, until
 * the function has been quiet for a while. The table has a limit, and forgets the one that crashed longest ago.
 * Does not know jobs, executors or clocks: it is told. */
#include "sched/breaker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SILENT_MIN 2u /* a single unexplained death says nothing */

static uint64_t key_of(uint64_t owner, const char *request, const char *function)
{
    return hash_text(hash_text(owner, request, strlen(request)), function, strlen(function));
}

struct breaker *breaker_find(const struct breakers *q, uint64_t owner, const char *request, const char *function)
{
    if (breaker_is_empty(q))
        return NULL;
    for (struct hash_link *l = hash_first(&q->all, key_of(owner, request, function)); l; l = hash_next(l)) {
        struct breaker *s = container_of(l, struct breaker, link);

        if (s->owner == owner && strcmp(s->request, request) == 0 && strcmp(s->function, function) == 0)
            return s;
    }
    return NULL;
}

static void breaker_free(struct breakers *q, struct breaker *s)
{
    hash_remove(&q->all, &s->link);
    free(s->request);
    free(s->function);
    free(s->told);
    free(s);
}

/* Calls each() for every entry, which may free it. */
static void walk(struct breakers *q, void (*each)(struct breakers *q, struct breaker *s, void *userdata),
                 void *userdata)
{
    for (size_t i = 0; i < q->all.n_buckets; i++)
        for (struct hash_link *l = q->all.buckets[i], *next; l; l = next) {
            next = l->next;
            each(q, container_of(l, struct breaker, link), userdata);
        }
}

static void free_each(struct breakers *q, struct breaker *s, void *userdata)
{
    breaker_free(q, s);
}

void breaker_deinit(struct breakers *q)
{
    walk(q, free_each, NULL);
    hash_deinit(&q->all);
}

struct holdings {
    uint64_t owner;
    uint32_t n;
    struct breaker *oldest; /* NULL: none that could go */
};

static void add_up(struct breakers *q, struct breaker *s, void *userdata)
{
    struct holdings *h = userdata;

    if (s->owner != h->owner)
        return;
    h->n++;
    if (!s->probe && (!h->oldest || s->last_usec < h->oldest->last_usec))
        h->oldest = s;
}

/* Only entries of the same owner give way. */
static bool make_room(struct breakers *q, uint64_t owner)
{
    struct holdings h = {.owner = owner};

    if (q->all.n < BREAKER_OWN)
        return true;
    walk(q, add_up, &h);
    if (h.n < BREAKER_OWN && q->all.n < BREAKER_ENTRIES)
        return true;
    if (h.oldest)
        breaker_free(q, h.oldest);
    return h.oldest;
}

/* Finds or makes an entry. NULL: no memory or no room; then the crash is not counted. */
static struct breaker *breaker_get(struct breakers *q, uint64_t owner, const char *request, const char *function)
{
    struct breaker *s = breaker_find(q, owner, request, function);

    if (s)
        return s;
    s = make_room(q, owner) ? calloc(1, sizeof(*s)) : NULL;
    if (!s)
        return NULL;
    s->owner = owner;
    s->request = strdup(request);
    s->function = strdup(function);
    if (!s->request || !s->function || hash_insert(&q->all, &s->link, key_of(owner, request, function)) < 0) {
        free(s->request);
        free(s->function);
        free(s);
        return NULL;
    }
    q->n_added++;
    return s;
}

/* The text of the last refusal is out of date. */
static void changed(struct breaker *s)
{
    free(TAKE(s->told));
}

static uint64_t pause_of(const struct breaker_rules *rules, uint32_t n_pauses)
{
    uint64_t usec = BREAKER_FIRST_USEC;

    while (n_pauses-- > 1 && usec < rules->max_usec)
        usec *= 2;
    return MIN(usec, rules->max_usec);
}

void breaker_mark(struct breakers *q, uint64_t owner, const char *request, uint64_t now_usec)
{
    struct breaker *plugin = breaker_get(q, owner, request, "");

    if (!plugin)
        return;
    plugin->n_good = 0;
    plugin->last_usec = now_usec;
}

/* A death after a long quiet begins anew. */
static void forget_old(struct breaker *s, const struct breaker_rules *rules, uint64_t now_usec)
{
    uint64_t quiet = now_usec - s->last_usec, pause = s->n_pauses ? pause_of(rules, s->n_pauses) : 0;

    if (quiet <= BREAKER_WINDOW_USEC + pause)
        return;
    s->n_crashes = s->n_silent = s->n_all = s->n_pauses = 0;
    s->until_usec = 0;
}

bool breaker_crashed(struct breakers *q, const struct breaker_rules *rules, uint64_t owner, const char *request,
                     const char *function, const void *job, const char *why, uint64_t now_usec)
{
    breaker_mark(q, owner, request, now_usec);
    struct breaker *s = breaker_get(q, owner, request, function);
    if (!s)
        return false;
    forget_old(s, rules, now_usec);
    s->n_crashes++;
    s->n_all++;
    s->last_usec = now_usec;
    snprintf(s->why, sizeof(s->why), "%s", why);
    changed(s);
    bool probe_failed = s->probe == job && job, over = !s->until_usec && s->n_crashes >= rules->after;
    if (probe_failed)
        s->probe = NULL;
    if (!probe_failed && !over) /* a job that was under way when the quarantine began does not prolong it */
        return false;
    s->n_crashes = 0;
    s->n_pauses++;
    s->until_usec = now_usec + pause_of(rules, s->n_pauses);
    return true;
}

bool breaker_silent(struct breakers *q, const struct breaker_rules *rules, uint64_t owner, const char *request,
                    const char *function, const void *job, bool alone, const char *why, uint64_t now_usec)
{
    struct breaker *s = breaker_get(q, owner, request, function);

    if (!s)
        return false;
    forget_old(s, rules, now_usec);
    bool enough = s->n_silent + 1 >= MAX(rules->after, (uint64_t)SILENT_MIN) || (job && s->probe == job);
    if (!alone || !enough) {
        s->n_silent++;
        s->n_all++;
        s->last_usec = now_usec;
        if (s->n_silent >= SILENT_MIN)
            breaker_mark(q, owner, request, now_usec);
        snprintf(s->why, sizeof(s->why), "%s", why);
        changed(s);
        return false;
    }
    s->n_silent = 0;
    s->n_crashes = (uint32_t)MAX(rules->after, (uint64_t)1) - 1; /* and this one */
    return breaker_crashed(q, rules, owner, request, function, job, why, now_usec);
}

enum breaker_answer breaker_ask(const struct breaker *s, const void *job, uint64_t now_usec)
{
    if (!s || !s->until_usec)
        return BREAKER_CLOSED;
    if (s->probe)
        return s->probe == job ? BREAKER_CLOSED : BREAKER_OPEN;
    return now_usec >= s->until_usec ? BREAKER_PROBE : BREAKER_OPEN;
}

void breaker_try(struct breaker *s, const void *job)
{
    s->probe = job;
}

bool breaker_ended(struct breakers *q, uint64_t owner, const char *request, const char *function, const void *job,
                   bool went_well)
{
    if (breaker_is_empty(q))
        return false;
    struct breaker *s = breaker_find(q, owner, request, function);
    struct breaker *plugin = went_well ? breaker_find(q, owner, request, "") : NULL;
    bool tried = s && s->probe == job;

    if (tried)
        s->probe = NULL; /* where it did not go well, nothing is known, and the next one is let through */
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
    if (plugin && ++plugin->n_good >= BREAKER_PROOF)
        breaker_free(q, plugin);
    return tried && went_well;
}

bool breaker_apart(const struct breakers *q, uint64_t owner, const char *request)
{
    return breaker_find(q, owner, request, "") != NULL;
}

struct release {
    bool any_owner;
    uint64_t owner;
    const char *request, *function;
    size_t n;
};

static void release_each(struct breakers *q, struct breaker *s, void *userdata)
{
    struct release *r = userdata;
    bool is_plugin = !*s->function;

    if ((!r->any_owner && s->owner != r->owner) || strcmp(s->request, r->request) != 0 ||
        (*r->function && strcmp(s->function, r->function) != 0))
        return;
    r->n += !is_plugin;
    breaker_free(q, s);
}

size_t breaker_release(struct breakers *q, bool any_owner, uint64_t owner, const char *request, const char *function)
{
    struct release r = {any_owner, owner, request, function, 0};

    walk(q, release_each, &r);
    return r.n;
}
