/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.c: limits that differ from the configuration, since an administrator has moved them, for all users or for one,
 * until the configuration is read again.
 * Owns the list of moves, as texts. Keys, values and their rules are the configuration's. [loop]
 * Keeps: the limits in force are the configuration with that list read over it, line by line.
 * Does not decide which users may move limits. */
#include "ops/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "configuration/print.h"

struct moved {
    struct list link;
    bool own; /* of one user */
    uint32_t uid, by;
    char *key, *value;
};

static struct moved *moved_free(struct moved *m)
{
    if (m) {
        free(m->key);
        free(m->value);
        free(m);
    }
    return NULL;
}

static struct moved *moved_find(const struct limits *l, bool own, uint32_t uid, const char *key)
{
    list_for_each_entry (struct moved, m, &l->moved, link) {
        if (m->own == own && (!own || m->uid == uid) && strcmp(m->key, key) == 0)
            return m;
    }
    return NULL;
}

/* Applies to the configuration the limits moved for all users or (own) for this one. True: there were some. */
static bool move_over(const struct limits *l, bool own, uint32_t uid, struct config *c)
{
    char error[CONFIG_ERROR];
    bool any = false;

    list_for_each_entry (const struct moved, m, &l->moved, link) {
        if (m->own != own || (own && m->uid != uid))
            continue;
        (void)config_set_limit(c, l->config, m->key, m->value, own, error); /* it was right when it came */
        any = true;
    }
    return any;
}

static void in_force(const struct limits *l, struct config *ret)
{
    *ret = (struct config){.limits = l->config->limits, .frontend_limits = l->config->frontend_limits};
    (void)move_over(l, false, 0, ret);
}

static int apply_user(struct limits *l, uint32_t uid, const struct config *everybody)
{
    struct config c = {.limits = everybody->limits, .frontend_limits = everybody->frontend_limits};

    return jobs_set_user_limits(l->jobs, uid, move_over(l, true, uid, &c) ? &c.limits : NULL);
}

static int apply_moved(struct limits *l)
{
    struct config c;
    int r = 0;

    in_force(l, &c);
    jobs_set_limits(l->jobs, &c.limits);
    frontend_set_limits(l->frontend, &c.frontend_limits);
    list_for_each_entry (const struct moved, m, &l->moved, link) {
        int one = m->own ? apply_user(l, m->uid, &c) : 0;

        r = one < 0 ? one : r;
    }
    return r;
}

void limits_init(struct limits *l, const struct config *config, struct jobs *jobs, struct frontend *frontend)
{
    *l = (struct limits){.config = config, .jobs = jobs, .frontend = frontend};
    list_init(&l->moved);
}

void limits_deinit(struct limits *l)
{
    while (l->n_moved > 0) {
        moved_free(container_of(list_pop_front(&l->moved), struct moved, link));
        l->n_moved--;
    }
}

void limits_reset(struct limits *l)
{
    if (l->n_moved > 0)
        log_notice("limits that were moved by `wsctl limits` are as the configuration says again");
    while (l->n_moved > 0) {
        struct moved *m = container_of(list_pop_front(&l->moved), struct moved, link);

        l->n_moved--;
        if (m->own)
            (void)jobs_set_user_limits(l->jobs, m->uid, NULL);
        moved_free(m);
    }
    (void)apply_moved(l);
}

static int remember(struct limits *l, bool own, uint32_t uid, const char *key, const char *value, uint32_t by)
{
    struct moved *m = moved_find(l, own, uid, key), *fresh;

    if (m) {
        list_remove(&m->link);
        l->n_moved--;
        moved_free(m);
    }
    if (!*value)
        return 0;
    if (l->n_moved == MOVED_MAX)
        return -ENOSPC;
    fresh = calloc(1, sizeof(*fresh));
    if (fresh) {
        *fresh = (struct moved){.own = own, .uid = uid, .by = by, .key = strdup(key), .value = strdup(value)};
        list_push_back(&l->moved, &fresh->link);
        l->n_moved++;
    }
    if (fresh && fresh->key && fresh->value)
        return 0;
    if (fresh) {
        list_remove(&fresh->link);
        l->n_moved--;
    }
    moved_free(fresh);
    return -ENOMEM;
}

static int set_limit(void *userdata, uint32_t by, bool own, uint32_t uid, const char *key, const char *value,
                     char error[static FRONTEND_LIMIT_ERROR])
{
    struct limits *l = userdata;
    char words[CONFIG_ERROR], whose[32] = "all users";
    struct config c, tried;
    int r;

    in_force(l, &c);
    tried = c;
    r = config_set_limit(&tried, l->config, key, value, own, words);
    if (r < 0) {
        snprintf(error, FRONTEND_LIMIT_ERROR, "%.400s", words);
        return r;
    }
    r = remember(l, own, uid, key, value, by);
    if (r == 0)
        r = own ? apply_user(l, uid, &c) : apply_moved(l);
    if (r < 0) {
        snprintf(error, FRONTEND_LIMIT_ERROR,
                 r == -ENOSPC ? "%u limits are moved already: take some of them back" : "out of memory", MOVED_MAX);
        return r;
    }
    if (own)
        snprintf(whose, sizeof(whose), "user %u", uid);
    log_event(LOG_KIND_ADMINISTRATOR, LOG_NOTICE, &(struct log_about){.uid = &by}, "%s = %s for %s: set by user %u",
              key, *value ? value : "as the configuration says", whose, by);
    return 0;
}

struct telling {
    const struct limits *limits;
    void (*each)(const struct frontend_limit *limit, void *userdata);
    void *userdata;
};

static void tell_limit(const char *key, const char *value, void *userdata)
{
    const struct telling *t = userdata;
    const struct moved *m = moved_find(t->limits, false, 0, key);

    t->each(&(struct frontend_limit){.key = key, .value = value, .moved = m != NULL, .by = m ? m->by : 0}, t->userdata);
}

static int each_limit(void *userdata, bool all, uint32_t uid,
                      void (*to)(const struct frontend_limit *limit, void *userdata), void *context)
{
    const struct limits *l = userdata;
    struct telling t = {.limits = l, .each = to, .userdata = context};
    struct config c;

    in_force(l, &c);
    int r = config_each_limit(&c, tell_limit, &t);
    if (r < 0)
        return r;
    list_for_each_entry (const struct moved, m, &l->moved, link) {
        if (m->own && (all || m->uid == uid))
            to(
                &(struct frontend_limit){
                    .key = m->key, .value = m->value, .moved = true, .by = m->by, .own = true, .uid = m->uid},
                context);
    }
    return 0;
}

const struct frontend_limits_ops limits_ops = {.set = set_limit, .each = each_limit};
