/* SPDX-License-Identifier: Apache-2.0
 *
 * sections.c: the sections with a name: [plugin NAME], [tag NAME], [runner NAME], [domain NAME], [schedule NAME].
 * Owns what they have in a struct config. [before the loop, and beside it at a reload]
 * Keeps: a section has its bounds, and so have their number.
 * Does not know files. */
#include "configuration/sections.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "calendar/calendar.h"
#include "configuration/people.h"
#include "configuration/scalars.h"
#include "configuration/syntax.h"

static int refuse_value(const char *key, const char *value, const char *wanted, char error[static CONFIG_ERROR])
{
    snprintf(error, CONFIG_ERROR, "%s = %.128s: %s is wanted", key, value, wanted);
    return -EINVAL;
}

/* NULL: too many, or a bad name. */
static struct config_plugin *plugin_get(struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_plugins; i++)
        if (strcmp(c->plugins[i].name, name) == 0)
            return &c->plugins[i];
    if (c->n_plugins == CONFIG_PLUGINS_MAX || strlen(name) >= sizeof(c->plugins[0].name) || !*name)
        return NULL;
    struct config_plugin *p = &c->plugins[c->n_plugins++];
    *p = (struct config_plugin){.enabled = -1, .origin = c->now};
    snprintf(p->name, sizeof(p->name), "%s", name);
    return p;
}

#define SHARE_KEYS "workers executor-memory executor-tasks cpu-weight"

/* False: it has no such key. */
static bool set_share(struct config_share *s, const char *key, const char *value, const char **ret_wanted)
{
    if (strcmp(key, "workers") == 0) {
        *ret_wanted = scalar_workers(value, &s->workers) < 0 ? WANTED_WORKERS : NULL;
    } else if (strcmp(key, "executor-memory") == 0) {
        *ret_wanted = scalar_memory(value, &s->memory) < 0 ? WANTED_MEMORY : NULL;
        s->has_memory |= !*ret_wanted;
    } else if (strcmp(key, "executor-tasks") == 0) {
        *ret_wanted = scalar_tasks(value, &s->tasks) < 0 ? WANTED_TASKS : NULL;
    } else if (strcmp(key, "cpu-weight") == 0) {
        *ret_wanted = scalar_weight(value, &s->cpu_weight) < 0 ? WANTED_WEIGHT : NULL;
    } else {
        return false;
    }
    return true;
}

static int set_plugin(struct config *c, const char *plugin, const char *key, const char *value,
                      char error[static CONFIG_ERROR])
{
    bool own = strcmp(value, "own") == 0;
    const char *wanted = NULL;
    struct config_share share = {0};
    uint64_t usec = 0;
    uint32_t running = 0;
    int enabled = -1;

    if (strcmp(key, "users") == 0) {
        struct config_plugin *p = plugin_get(c, plugin);

        if (p)
            return people_set(&p->users, key, value, error);
    } else if (strcmp(key, "enabled") == 0) {
        enabled = scalar_bool(value);
        wanted = enabled < 0 ? WANTED_BOOL : NULL;
    } else if (strcmp(key, "isolation") == 0) {
        wanted = own || strcmp(value, "shared") == 0 ? NULL : "own (an executor of its own) or shared";
    } else if (strcmp(key, "max-run") == 0) {
        wanted = scalar_time(value, &usec) < 0 ? WANTED_TIME : NULL;
    } else if (strcmp(key, "max-running") == 0) {
        wanted = scalar_running(value, &running) < 0 ? WANTED_RUNNING : NULL;
    } else if (!set_share(&share, key, value, &wanted)) {
        snprintf(error, CONFIG_ERROR,
                 "[plugin %s] has no key `%.64s`; it has: users enabled isolation max-run max-running " SHARE_KEYS,
                 plugin, key);
        return -EINVAL;
    }
    if (wanted)
        return refuse_value(key, value, wanted, error);
    struct config_plugin *p = plugin_get(c, plugin);
    if (!p) {
        snprintf(error, CONFIG_ERROR, "[plugin %s]: at most %u plugins, with names of 1 to 42 bytes", plugin,
                 CONFIG_PLUGINS_MAX);
        return -EINVAL;
    }
    if (enabled >= 0)
        p->enabled = enabled;
    else if (*key == 'i')
        p->own = own;
    else if (running)
        p->max_running = running;
    else if (usec)
        p->max_run_usec = usec;
    else
        (void)set_share(&p->share, key, value, &wanted);
    return 0;
}

static bool is_tag(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n > 0 && !name[n] && n < sizeof(((struct config_tag *)0)->name);
}

/* NULL: too many, or no memory. */
static struct config_tag *tag_get(struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_tags; i++)
        if (strcmp(c->tags[i].name, name) == 0)
            return &c->tags[i];
    if (!c->tags)
        c->tags = calloc(CONFIG_TAGS_MAX, sizeof(*c->tags));
    if (!c->tags || c->n_tags == CONFIG_TAGS_MAX)
        return NULL;
    snprintf(c->tags[c->n_tags].name, sizeof(c->tags[0].name), "%s", name);
    return &c->tags[c->n_tags++];
}

static int set_tag(struct config *c, const char *name, const char *key, const char *value,
                   char error[static CONFIG_ERROR])
{
    uint32_t running = 0;

    if (strcmp(key, "max-running") != 0) {
        snprintf(error, CONFIG_ERROR, "[tag %s] has no key `%.64s`; it has: max-running", name, key);
        return -EINVAL;
    }
    if (scalar_running(value, &running) < 0)
        return refuse_value(key, value, WANTED_RUNNING, error);
    struct config_tag *t = is_tag(name) ? tag_get(c, name) : NULL;
    if (!t) {
        snprintf(error, CONFIG_ERROR,
                 "[tag %s]: at most %u tags, with names of 1 to 45 letters, digits, dots, underscores and hyphens",
                 name, CONFIG_TAGS_MAX);
        return -EINVAL;
    }
    t->max_running = running;
    return 0;
}

static bool is_runner(const char *name)
{
    size_t n = strlen(name);
    bool has_so = n > 3 && strcmp(name + n - 3, ".so") == 0;

    name += *name == '@'; /* a place */
    return is_tag(name) && *name != '-' && *name != '.' && !has_so;
}

/* NULL: too many, a bad name, or no memory. */
static struct config_runner *runner_get(struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_runners; i++)
        if (strcmp(c->runners[i].name, name) == 0)
            return &c->runners[i];
    if (!is_runner(name))
        return NULL;
    if (!c->runners)
        c->runners = calloc(CONFIG_RUNNERS_MAX, sizeof(*c->runners));
    if (!c->runners || c->n_runners == CONFIG_RUNNERS_MAX)
        return NULL;
    struct config_runner *r = &c->runners[c->n_runners++];
    *r = (struct config_runner){.wait_usec = RUNNER_ABSENT_USEC, .origin = c->now};
    snprintf(r->name, sizeof(r->name), "%s", name);
    return r;
}

static int set_runner(struct config *c, const char *name, const char *key, const char *value,
                      char error[static CONFIG_ERROR])
{
    struct config_runner *r = runner_get(c, name);
    uint64_t usec = 0;
    uint32_t max = 0;

    if (!r) {
        snprintf(error, CONFIG_ERROR,
                 "[runner %s]: at most %u runners, with names of 1 to 42 letters, digits, dots, underscores and "
                 "hyphens, which begin with a letter, a digit or _ (that of a place: @) and do not end in .so",
                 name, CONFIG_RUNNERS_MAX);
        return -EINVAL;
    }
    if (strcmp(key, "offer") == 0)
        return people_set(&r->offer, key, value, error);
    if (strcmp(key, "users") == 0)
        return people_set(&r->users, key, value, error);
    if (strcmp(key, "wait") == 0) {
        if (strcmp(value, "0") != 0 && scalar_time(value, &usec) < 0)
            return refuse_value(key, value, "0, or " WANTED_TIME, error);
        r->wait_usec = usec;
        return 0;
    }
    if (strcmp(key, "max") == 0) {
        if (scalar_running(value, &max) < 0)
            return refuse_value(key, value, "a number of runners from 1 on", error);
        r->max = max;
        return 0;
    }
    snprintf(error, CONFIG_ERROR, "[runner %s] has no key `%.64s`; it has: offer users wait max", name, key);
    return -EINVAL;
}

/* NULL: too many, or a bad name. */
static struct config_domain *domain_get(struct config *c, const char *name)
{
    struct config_domains *all = c->domains;

    for (uint32_t i = 0; i < all->n; i++)
        if (strcmp(all->list[i].name, name) == 0)
            return &all->list[i];
    if (all->n == CONFIG_DOMAINS_MAX || strlen(name) >= sizeof(all->list[0].name) || !*name)
        return NULL;
    struct config_domain *d = &all->list[all->n++];
    *d = (struct config_domain){0};
    snprintf(d->name, sizeof(d->name), "%s", name);
    return d;
}

static const char *domain_of(const struct config *c, uint32_t uid)
{
    for (uint32_t i = 0; i < c->domains->n; i++)
        for (uint32_t j = 0; j < c->domains->list[i].n_uids; j++)
            if (c->domains->list[i].uids[j] == uid)
                return c->domains->list[i].name;
    return NULL;
}

/* Each line adds to those before it. */
static int set_users(struct config *c, struct config_domain *d, const char *value, char error[static CONFIG_ERROR])
{
    _cleanup_(freep) char *copy = strdup(value);
    char *save = NULL;

    for (char *user = copy ? strtok_r(copy, " \t", &save) : NULL; user; user = strtok_r(NULL, " \t", &save)) {
        const char *other;
        uint32_t uid;

        int r = uid_of(user, &uid);
        if (r < 0 && r != -ENOENT)
            return accounts_silent("users", user, r, error);
        if (r < 0) {
            snprintf(error, CONFIG_ERROR, "users: %.64s: there is no such user", user);
            return -EINVAL;
        }
        other = domain_of(c, uid);
        if (other) {
            snprintf(error, CONFIG_ERROR, "users: %.64s is in [domain %s] already", user, other);
            return -EINVAL;
        }
        if (d->n_uids == CONFIG_USERS_MAX) {
            snprintf(error, CONFIG_ERROR, "users: at most %u in a domain", CONFIG_USERS_MAX);
            return -EINVAL;
        }
        if (id_add(&d->uids, &d->n_uids, uid) < 0)
            return -ENOMEM;
    }
    return copy ? 0 : -ENOMEM;
}

static int set_domain(struct config *c, const char *name, const char *key, const char *value,
                      char error[static CONFIG_ERROR])
{
    struct config_domain *d = domain_get(c, name);
    const char *wanted = NULL;

    if (!d) {
        snprintf(error, CONFIG_ERROR, "[domain %s]: at most %u domains, with names of 1 to 42 bytes", name,
                 CONFIG_DOMAINS_MAX);
        return -EINVAL;
    }
    if (strcmp(key, "users") == 0)
        return set_users(c, d, value, error);
    if (!set_share(&d->share, key, value, &wanted)) {
        snprintf(error, CONFIG_ERROR, "[domain %s] has no key `%.64s`; it has: users " SHARE_KEYS, name, key);
        return -EINVAL;
    }
    return wanted ? refuse_value(key, value, wanted, error) : 0;
}

/* NULL: too many, a bad name, or no memory. */
static struct config_schedule *schedule_get(struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_schedules; i++)
        if (strcmp(c->schedules[i].name, name) == 0)
            return &c->schedules[i];
    if (c->n_schedules == CONFIG_SCHEDULES_MAX || !jobs_schedule_is_name(name))
        return NULL;
    struct config_schedule *more = realloc(c->schedules, (c->n_schedules + 1) * sizeof(*more));
    if (!more)
        return NULL;
    c->schedules = more;
    struct config_schedule *s = &more[c->n_schedules++];
    *s = (struct config_schedule){.origin = c->now};
    snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
}

/* PLUGIN[:FUNCTION] ARG... */
static int set_job(struct config_schedule *s, const char *value)
{
    _cleanup_(freep) char *words = NULL;
    size_t size;
    uint32_t n;
    int r = syntax_words(value, &words, &size, &n);

    if (r < 0 || n == 0 || !*words)
        return r < 0 ? r : -EINVAL;
    size_t first = strlen(words) + 1;
    char *colon = strrchr(words, ':');
    if (colon && !strchr(colon, '/'))
        *colon++ = 0;
    else
        colon = NULL;
    if (!*words || (colon && !*colon))
        return -EINVAL;
    char *plugin = strdup(words), *function = strdup(colon ? colon : ""), *args = malloc(size - first + 1);
    if (!plugin || !function || !args) {
        free(plugin);
        free(function);
        free(args);
        return -ENOMEM;
    }
    memcpy(args, words + first, size - first);
    free(s->plugin);
    free(s->function);
    free(s->args);
    s->plugin = plugin;
    s->function = function;
    s->args = args;
    s->args_size = size - first;
    s->argc = n - 1;
    return 0;
}

static int set_on(struct config_schedule *s, const char *value)
{
    struct calendar *calendar;
    int r = calendar_parse(&calendar, value);
    char *copy;

    if (r < 0)
        return r;
    calendar_free(calendar);
    copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(s->on);
    s->on = copy;
    return 0;
}

static int refuse_on(const char *value, char error[static CONFIG_ERROR])
{
    const char *zone = calendar_unknown_zone(value);

    if (!zone)
        return refuse_value("on", value, "a calendar expression of systemd.time(7), such as Mon..Fri 08:00,", error);
    snprintf(error, CONFIG_ERROR, "on = %.100s: there is no time zone %.64s here: see `timedatectl list-timezones`",
             value, zone);
    return -EINVAL;
}

static int set_schedule(struct config *c, const char *name, const char *key, const char *value,
                        char error[static CONFIG_ERROR])
{
    struct config_schedule *s = schedule_get(c, name);
    const char *wanted = NULL;
    int flag;

    if (!s) {
        snprintf(error, CONFIG_ERROR, "[schedule %s]: at most %u schedules, with names of letters, digits and _-.@+",
                 name, CONFIG_SCHEDULES_MAX);
        return -EINVAL;
    }
    if (strcmp(key, "on") == 0) {
        s->on_origin = c->now;
        if (set_on(s, value) < 0)
            return refuse_on(value, error);
    } else if (strcmp(key, "job") == 0) {
        s->job_origin = c->now;
        wanted = set_job(s, value) < 0 ? "PLUGIN[:FUNCTION] ARGUMENT..." : NULL;
    } else if (strcmp(key, "persistent") == 0) {
        flag = scalar_bool(value);
        wanted = flag < 0 ? WANTED_BOOL : NULL;
        s->persistent = flag < 0 ? s->persistent : flag;
    } else if (strcmp(key, "user") == 0) {
        int r = uid_of(value, &s->uid);
        if (r < 0 && r != -ENOENT)
            return accounts_silent(key, value, r, error);
        wanted = r < 0 ? "the name or number of a user" : NULL;
        s->has_uid |= r == 0;
    } else {
        snprintf(error, CONFIG_ERROR, "[schedule %s] has no key `%.64s`; it has: on job persistent user", name, key);
        return -EINVAL;
    }
    return wanted ? refuse_value(key, value, wanted, error) : 0;
}

struct section {
    const char *prefix;
    int (*set)(struct config *c, const char *name, const char *key, const char *value, char error[static CONFIG_ERROR]);
};

/* NULL: it has no name. */
static const struct section *section_find(const char *section)
{
    static const struct section all[] = {
        {"plugin ", set_plugin}, {"tag ", set_tag},           {"runner ", set_runner},
        {"domain ", set_domain}, {"schedule ", set_schedule},
    };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (strncmp(section, all[i].prefix, strlen(all[i].prefix)) == 0)
            return &all[i];
    return NULL;
}

int sections_set(struct config *c, const char *section, const char *key, const char *value,
                 char error[static CONFIG_ERROR])
{
    const struct section *s = section_find(section);

    if (!s)
        return -ENOENT;
    return s->set(c, section + strlen(s->prefix), key, value, error);
}

/* --- printing ----------------------------------------------------------------------------------------------------- */

static void print_share(const struct config_share *s, FILE *to)
{
    if (s->workers)
        fprintf(to, "workers = %u\n", s->workers);
    if (s->tasks)
        fprintf(to, "executor-tasks = %llu\n", (unsigned long long)s->tasks);
    if (s->cpu_weight)
        fprintf(to, "cpu-weight = %u\n", s->cpu_weight);
    if (s->has_memory) {
        fputs("executor-memory = ", to);
        scalar_print_bound(s->memory, to);
        fputc('\n', to);
    }
}

void sections_print_domain(const struct config_domain *d, FILE *to)
{
    fprintf(to, "\n[domain %s]\n", d->name);
    for (uint32_t i = 0; i < d->n_uids; i++) /* a line of a file has its limit */
        fprintf(to, "users = %u\n", d->uids[i]);
    if (!d->n_uids)
        fputs("users =\n", to); /* a section without keys reads back as none */
    print_share(&d->share, to);
}

static int print_job(const struct config_schedule *s, FILE *to)
{
    _cleanup_(freep) char *name = NULL;
    bool has_function = s->function && *s->function;

    if (asprintf(&name, "%s%s%s", s->plugin ? s->plugin : "", has_function ? ":" : "",
                 has_function ? s->function : "") < 0)
        return -ENOMEM;
    syntax_print_word(name, to);
    for (size_t at = 0; at < s->args_size; at += strlen(s->args + at) + 1) {
        fputc(' ', to);
        syntax_print_word(s->args + at, to);
    }
    return 0;
}

static int print_schedule(const struct config_schedule *s, FILE *to)
{
    fprintf(to, "\n[schedule %s]\non = ", s->name);
    syntax_print_value(s->on ? s->on : "", to);
    fputs("\njob = ", to);
    int r = print_job(s, to);
    fprintf(to, "\npersistent = %s\n", s->persistent ? "yes" : "no");
    if (s->has_uid)
        fprintf(to, "user = %u\n", s->uid);
    return r;
}

static void print_list(const struct access_list *l, const char *key, FILE *to)
{
    if (!l->said)
        return;
    fprintf(to, "%s = ", key);
    people_print(l, key, to);
    fputc('\n', to);
}

static void print_plugin(const struct config_plugin *p, FILE *to)
{
    fprintf(to, "\n[plugin %s]\n", p->name);
    if (p->enabled >= 0)
        fprintf(to, "enabled = %s\n", p->enabled ? "yes" : "no");
    fprintf(to, "isolation = %s\n", p->own ? "own" : "shared");
    if (p->max_run_usec)
        fprintf(to, "max-run = %llums\n", (unsigned long long)p->max_run_usec / 1000);
    if (p->max_running)
        fprintf(to, "max-running = %u\n", p->max_running);
    print_list(&p->users, "users", to);
    print_share(&p->share, to);
}

static void print_runner(const struct config_runner *r, FILE *to)
{
    fprintf(to, "\n[runner %s]\n", r->name);
    print_list(&r->offer, "offer", to);
    print_list(&r->users, "users", to);
    fprintf(to, "wait = %llu%s\n", (unsigned long long)r->wait_usec / 1000, r->wait_usec ? "ms" : "");
    if (r->max)
        fprintf(to, "max = %u\n", r->max);
}

int sections_print(const struct config *c, FILE *to)
{
    int r = 0;

    for (uint32_t i = 0; i < c->n_plugins; i++)
        print_plugin(&c->plugins[i], to);
    for (uint32_t i = 0; i < c->n_tags; i++)
        fprintf(to, "\n[tag %s]\nmax-running = %u\n", c->tags[i].name, c->tags[i].max_running);
    for (uint32_t i = 0; i < c->n_runners; i++)
        print_runner(&c->runners[i], to);
    for (uint32_t i = 0; i < c->domains->n; i++)
        sections_print_domain(&c->domains->list[i], to);
    for (uint32_t i = 0; i < c->n_schedules && r == 0; i++)
        r = print_schedule(&c->schedules[i], to);
    return r;
}

static void schedule_clear(struct config_schedule *s)
{
    free(s->on);
    free(s->plugin);
    free(s->function);
    free(s->args);
}

void sections_free(struct config *c)
{
    for (uint32_t i = 0; c->domains && i < c->domains->n; i++)
        free(c->domains->list[i].uids);
    free(c->domains);
    for (uint32_t i = 0; i < c->n_plugins; i++)
        people_free(&c->plugins[i].users);
    for (uint32_t i = 0; i < c->n_schedules; i++)
        schedule_clear(&c->schedules[i]);
    for (uint32_t i = 0; i < c->n_runners; i++) {
        people_free(&c->runners[i].offer);
        people_free(&c->runners[i].users);
    }
    free(c->runners);
    free(c->schedules);
    free(c->tags);
}
