/* SPDX-License-Identifier: Apache-2.0
 *
 * places.c: the plugins that jobs name at a place.
 * Owns nothing: they are entries of the place's domain, which no executor has.
 * Keeps: each user has entries of its own, and so many. So the names that one user's jobs use keep no other user out.
 * Does not choose a runner (runner-names.c). */
#include "domains/places.h"

#include <errno.h>
#include <string.h>

#include "domains/domain.h"
#include "domains/plugin-lookup.h"
#include "domains/plugins.h"

/* An entry that no job needs. */
static bool is_free(const struct plugin *p)
{
    return !p->n_jobs && !p->settling && list_empty(&p->waiting) && list_empty(&p->queries);
}

/* Frees those of this user that nothing needs. Returns how many are left. */
static uint32_t weed(struct runners *g, uint32_t uid)
{
    uint32_t n = 0;

    list_for_each_entry_safe (struct plugin, p, after_p, &g->domain->priv->plugins.all, link) {
        if (p == g->plugin || p->uid != uid)
            continue;
        if (is_free(p))
            plugin_free(p);
        else
            n++;
    }
    return n;
}

static struct plugin *plugin_at_place(struct runners *g, uint32_t uid, const char *request)
{
    struct plugin *p = plugin_make(g->domain, request);

    if (!p)
        return NULL;
    p->uid = uid;
    p->name = strdup(request);
    p->state = PLUGIN_READY; /* it is never loaded */
    if (p->name)
        return p;
    plugin_free(p);
    errno = ENOMEM;
    return NULL;
}

struct plugin *runners_plugin(struct runners *g, uint32_t uid, const char *request, bool make)
{
    struct plugins *plugins = &g->domain->priv->plugins;
    uint32_t n = 0;

    if (!g->place)
        return g->plugin;
    list_for_each_entry (struct plugin, p, &plugins->all, link) {
        if (p == g->plugin || p->uid != uid)
            continue;
        n++;
        if (strcmp(p->request, request) != 0)
            continue;
        if (make && is_free(p) && p->n_functions == PLUGIN_FUNCTIONS_MAX) { /* begins anew */
            plugin_free(p);
            return plugin_at_place(g, uid, request);
        }
        p->used = ++plugins->n_used;
        return p;
    }
    if (!make)
        return NULL;
    if (n < PLACE_PLUGINS || weed(g, uid) < PLACE_PLUGINS)
        return plugin_at_place(g, uid, request);
    errno = EMFILE;
    return NULL;
}
