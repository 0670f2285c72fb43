/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin-lookup.h: what is known of a plugin by its request: its entry, its name in wsd.conf, and whether it runs
 * apart. [loop]
 */
#pragma once

#include "table/job.h"

#define PLUGIN_FUNCTIONS_MAX 64u

enum plugin_apart { PLUGIN_TOGETHER = 0, PLUGIN_APART_CONFIGURED = 1, PLUGIN_APART_CRASHED = 2 };

/* A request for a place is `@NAME/PLUGIN` (runner-names.h): no plugin directory has it. */
static inline bool plugin_is_elsewhere(const char *request)
{
    return request[0] == '@';
}

static inline bool plugin_is_path(const char *request)
{
    return strchr(request, '/') && !plugin_is_elsewhere(request);
}

/* Returns why it cannot be loaded. Requires PLUGIN_FAILED. */
static inline const char *plugin_why(const struct plugin *p)
{
    return p->error_text ? p->error_text : "cannot be loaded";
}

/* Makes the request by which a plugin is looked up. A relative path begins at the submitter's working directory (NULL:
 * not known). Returns 0, -EACCES (a path, and this is not this user's own wsd), -ENOMEM, or -ENAMETOOLONG (too long for
 * a LOAD). */
int plugin_request(const struct jobs *jobs, uint32_t uid, const char *plugin, const struct directory *directory,
                   char **ret_request);
/* The entry that jobs find. NULL: there is none. */
struct plugin *plugin_find(struct domain *d, const char *request);
/* The name of a plugin in wsd.conf: its own name; as long as that is not known, the name of its file, in the buffer. */
const char *plugin_config_name(const struct jobs *jobs, uint64_t owner, const char *request, char buffer[static 64]);
enum plugin_apart plugin_apart(const struct jobs *jobs, uint64_t owner, const char *request);
/* Room for its functions, which stay where they are, since jobs point at them. What was never loaded has none. 0 or
 * -ENOMEM. */
int plugin_functions_room(struct plugin *p);
/* A new one, which no executor has. NULL: too many, or no memory. */
struct plugin_function *plugin_function_add(struct plugin *p, const char *name, const char *help, uint64_t flags);
