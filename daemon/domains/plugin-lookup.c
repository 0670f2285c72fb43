/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin-lookup.c: what is known of a plugin by its request: the entry, its name in wsd.conf, and whether it is apart.
 * Owns nothing. [loop]
 * Does not make an entry, or load a plugin (plugins.c). */
#include "domains/plugin-lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "domains/domain.h"
#include "domains/owners.h"
#include "ring/control.h"

struct plugin *plugin_find(struct domain *d, const char *request)
{
    list_for_each_entry (struct plugin, p, &d->priv->plugins.all, link) {
        if (!p->stale && (!p->reload || p->settling) && strcmp(p->request, request) == 0)
            return p;
    }
    return NULL;
}

int plugin_request(const struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                   char **ret_request)
{
    bool relative = plugin_is_path(plugin) && plugin[0] != '/' && directory;
    size_t n = strlen(plugin), before = relative ? strlen(directory->path) + 1 : 0;
    char *request;

    *ret_request = NULL;
    if (plugin_is_path(plugin) && !(jobs->options.user_daemon && uid == jobs->options.own_uid))
        return -EACCES;
    request = malloc(before + n + 1);

    *ret_request = request;
    if (!request)
        return -ENOMEM;
    if (relative) {
        memcpy(request, directory->path, before - 1);
        request[before - 1] = '/';
    }
    memcpy(request + before, plugin, n + 1);
    return before + n < CONTROL_TEXT ? 0 : -ENAMETOOLONG;
}

/* The plugin's own name, from one of the owner's executors; NULL: it has not been loaded. */
static const char *name_loaded(const struct jobs *jobs, uint64_t owner, const char *own, const char *request)
{
    struct domain *d = domain_find(jobs, owner, own);
    struct plugin *p = d ? plugin_find(d, request) : NULL;

    return p ? p->name : NULL;
}

const char *plugin_config_name(const struct jobs *jobs, uint64_t owner, const char *request, char buffer[static 64])
{
    const char *loaded = name_loaded(jobs, owner, NULL, request);

    if (!loaded)
        loaded = name_loaded(jobs, owner, request, request);
    if (loaded)
        return loaded;
    const char *slash = strrchr(request, '/'), *name = slash ? slash + 1 : request;
    size_t n = strlen(name);

    if (n > 3 && strcmp(name + n - 3, ".so") == 0)
        n -= 3;
    n = MIN(n, (size_t)63);
    memcpy(buffer, name, n);
    buffer[n] = 0;
    return buffer;
}

enum plugin_apart plugin_apart(const struct jobs *jobs, uint64_t owner, const char *request)
{
    char buffer[64];

    if (jobs->options.plugin_own &&
        jobs->options.plugin_own(plugin_config_name(jobs, owner, request, buffer), jobs->options.context))
        return PLUGIN_APART_CONFIGURED;
    return breaker_apart(&jobs->breakers, owner, request) ? PLUGIN_APART_CRASHED : PLUGIN_TOGETHER;
}

int plugin_functions_room(struct plugin *p)
{
    if (!p->functions)
        p->functions = calloc(PLUGIN_FUNCTIONS_MAX, sizeof(struct plugin_function));
    return p->functions ? 0 : -ENOMEM;
}

struct plugin_function *plugin_function_add(struct plugin *p, const char *name, const char *help, uint64_t flags)
{
    if (p->n_functions == PLUGIN_FUNCTIONS_MAX || plugin_functions_room(p) < 0)
        return NULL;
    struct plugin_function *new = &p->functions[p->n_functions];
    *new = (struct plugin_function){.name = strdup(name), .help = strdup(help), .flags = flags, .index = RING_NONE};
    if (!new->name || !new->help) {
        free(new->name);
        free(new->help);
        return NULL;
    }
    p->n_functions++;
    return new;
}
