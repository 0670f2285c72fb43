/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin-names.c: names of plugins, and of the functions in one.
 * Owns nothing. [loop]
 * Does not load a plugin or look at a file (plugins.c). */
#include "table/plugin-names.h"

#include <string.h>

#include "ring/layout.h"
#include "table/job.h"

size_t plugin_base_name(const char *request, const char **ret)
{
    const char *slash = strrchr(request, '/');
    size_t n;

    *ret = slash ? slash + 1 : request;
    n = strlen(*ret);
    return n > 3 && strcmp(*ret + n - 3, ".so") == 0 ? n - 3 : n;
}

const char *plugin_title(const struct plugin *p)
{
    return p->name ? p->name : p->title ? p->title : p->request;
}

struct plugin_function *plugin_find_function(struct plugin *p, const char *name)
{
    const char *wanted = *name ? name : p->name;

    for (uint32_t i = 0; i < p->n_functions; i++)
        if (p->functions[i].index != RING_NONE && strcmp(p->functions[i].name, wanted) == 0)
            return &p->functions[i];
    for (uint32_t i = 0; i < p->n_functions && !*name; i++)
        if (p->functions[i].index == 0) /* the main function, where none has the plugin's name, is the first */
            return &p->functions[i];
    return NULL;
}
