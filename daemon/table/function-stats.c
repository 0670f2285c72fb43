/* SPDX-License-Identifier: Apache-2.0
 *
 * function-stats.c: how the jobs of each function and user have ended, and how long they took.
 * Owns the rows. [loop]
 * Keeps: the sum over all rows, with the others, is that of all that was counted. There are never more than
 * FUNCTION_STATS_MAX rows, nor more than FUNCTION_STATS_PER_USER of one user, so no user drives out all of another's.
 * Does not compute quantiles, or know which users may see what. */
#include "table/function-stats.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "table/job.h"
#include "table/plugin-names.h"

_Static_assert(FUNCTION_INTERRUPTED == JOB_INTERRUPTED - JOB_SUCCEEDED, "in the order of the states");

/* --- rows --------------------------------------------------------------------------------------------------------- */

static uint64_t key_of(uint32_t uid, const char *plugin, const char *function)
{
    return hash_text(hash_text(hash_number(uid), plugin, strlen(plugin)), function, strlen(function));
}

static struct function_stats *find(struct function_table *t, uint64_t key, uint32_t uid, const char *plugin,
                                   const char *function)
{
    for (struct hash_link *l = hash_first(&t->by_name, key); l; l = hash_next(l)) {
        struct function_stats *s = container_of(l, struct function_stats, by_name);

        if (s->uid == uid && strcmp(s->function, function) == 0 && strcmp(s->plugin, plugin) == 0)
            return s;
    }
    return NULL;
}

/* The row that was unused for longest; user NULL: of all users. */
static struct function_stats *oldest(struct function_table *t, const struct user *user)
{
    struct function_stats *found = NULL;

    for (uint32_t i = 0; i < t->n_rows; i++)
        if ((!found || t->used[i] < t->used[found->index]) && (!user || t->rows[i]->user == user))
            found = t->rows[i];
    return found;
}

static void empty(struct function_stats *s)
{
    for (uint32_t i = 0; i < FUNCTION_MEASURES; i++)
        histogram_deinit(&s->of[i]);
    free(s->plugin);
    *s = (struct function_stats){.index = s->index};
}

/* What it has counts with the others from now on. */
static void make_room(struct function_table *t, struct function_stats *s)
{
    struct function_stats *others = &t->others;

    for (uint32_t i = 0; i < FUNCTION_OUTCOMES; i++)
        others->ended[i] += s->ended[i];
    others->direct += s->direct;
    for (uint32_t i = 0; i < FUNCTION_MEASURES; i++)
        histogram_merge(&others->of[i], &s->of[i]);
    hash_remove(&t->by_name, &s->by_name);
    s->user->n_functions--;
    empty(s);
}

/* A row that serves no function. NULL: no memory. */
static struct function_stats *free_row(struct function_table *t, const struct user *user)
{
    struct function_stats *s = user->n_functions >= FUNCTION_STATS_PER_USER ? oldest(t, user)
                               : t->n_rows >= FUNCTION_STATS_MAX            ? oldest(t, NULL)
                                                                            : NULL;

    if (s && s->user) {
        make_room(t, s);
        return s;
    }
    if (!s && (s = calloc(1, sizeof(*s)))) {
        s->index = t->n_rows;
        t->rows[t->n_rows++] = s;
    }
    return s;
}

/* NULL: no memory. */
static char *names_of(const char *plugin, const char *function, const char **ret_function)
{
    size_t n = strlen(plugin) + 1, m = strlen(function) + 1;
    char *names = malloc(n + m);

    if (!names)
        return NULL;
    memcpy(names, plugin, n);
    memcpy(names + n, function, m);
    *ret_function = names + n;
    return names;
}

/* NULL: no memory. */
static struct function_stats *add(struct function_table *t, struct user *user, uint64_t key, const char *plugin,
                                  const char *function)
{
    const char *second;
    _cleanup_(freep) char *names = names_of(plugin, function, &second);
    struct function_stats *s = names ? free_row(t, user) : NULL;

    if (!s || hash_insert(&t->by_name, &s->by_name, key) < 0)
        return NULL; /* an empty row is the next one to be taken: its last use was long ago */
    s->plugin = TAKE(names);
    s->function = second;
    s->uid = user->uid;
    s->user = user;
    s->serial = ++t->n_serials;
    user->n_functions++;
    return s;
}

static struct function_stats *use(struct function_table *t, struct function_stats *s)
{
    t->used[s->index] = ++t->n_used;
    return s;
}

struct function_stats *function_stats_get(struct jobs *jobs, struct user *user, const char *plugin,
                                          const char *function)
{
    struct function_table *t = &jobs->functions;
    uint64_t key = key_of(user->uid, plugin, function);
    struct function_stats *s = find(t, key, user->uid, plugin, function);

    if (!s)
        s = add(t, user, key, plugin, function);
    return s ? use(t, s) : &t->others;
}

static struct function_stats *stats_of(struct user *user, struct plugin *plugin, struct plugin_function *f)
{
    struct jobs *jobs = plugin->domain->jobs;
    struct function_stats_near *near = &f->near[user->uid % FUNCTION_STATS_NEAR];
    struct function_stats *s = near->stats;

    /* rows are never freed: one that serves another function has another serial */
    if (s && s->serial == near->serial && s->user == user)
        return use(&jobs->functions, s);
    s = function_stats_get(jobs, user, plugin_title(plugin), f->name);
    *near = (struct function_stats_near){.stats = s, .serial = s->serial};
    return s;
}

struct function_stats *function_stats_of(struct user *user, struct plugin *plugin, struct plugin_function *function)
{
    return stats_of(user, plugin, function);
}

/* --- counting ----------------------------------------------------------------------------------------------------- */

static void measure(struct function_stats *s, uint64_t queued_usec, uint64_t run_usec, uint64_t cpu_usec,
                    uint64_t output)
{
    histogram_add(&s->of[FUNCTION_QUEUE], queued_usec);
    histogram_add(&s->of[FUNCTION_RUN], run_usec);
    histogram_add(&s->of[FUNCTION_CPU], cpu_usec);
    histogram_add(&s->of[FUNCTION_OUTPUT], output);
}

void function_stats_job(struct job *job, const struct job_info *info, const struct front_completion *c)
{
    if (!job_function(job)) /* what it names may not exist */
        return;
    struct function_stats *s = stats_of(job->user, job->plugin, job_function(job));

    s->ended[job->state - JOB_SUCCEEDED]++;
    if (c)
        measure(s, info->queued_usec, info->run_usec, info->cpu_usec, c->output_size);
}

void function_stats_bundle(struct job *bundle, uint32_t n, const struct array_end ends[])
{
    struct function_stats *s = stats_of(bundle->user, bundle->plugin, job_function(bundle));

    s->ended[FUNCTION_SUCCEEDED] += n;
    for (uint32_t i = 0; i < n; i++)
        measure(s, ends[i].queued_usec, ends[i].run_usec, ends[i].cpu_usec, ends[i].size);
}

void function_stats_count(struct user *user, struct plugin *plugin, struct plugin_function *function,
                          enum function_outcome outcome, uint32_t n)
{
    stats_of(user, plugin, function)->ended[outcome] += n;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static bool is_empty(const struct function_stats *s)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < FUNCTION_OUTCOMES; i++)
        n += s->ended[i];
    return n == 0;
}

const struct function_stats *function_stats_next(struct jobs *jobs, uint32_t *cursor)
{
    struct function_table *t = &jobs->functions;

    while (*cursor < t->n_rows) {
        const struct function_stats *s = t->rows[(*cursor)++];

        if (s->user)
            return s;
    }
    if (*cursor > FUNCTION_STATS_MAX)
        return NULL;
    *cursor = FUNCTION_STATS_MAX + 1;
    t->others.uid = FUNCTION_STATS_OTHERS;
    return is_empty(&t->others) ? NULL : &t->others;
}

void function_stats_deinit(struct jobs *jobs)
{
    struct function_table *t = &jobs->functions;

    for (uint32_t i = 0; i < t->n_rows; i++) {
        empty(t->rows[i]);
        free(t->rows[i]);
    }
    empty(&t->others);
    hash_deinit(&t->by_name);
}
