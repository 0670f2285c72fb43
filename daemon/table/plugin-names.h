/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin-names.h: names of plugins, and of the functions in one. [loop]
 */
#pragma once

#include <stddef.h>

struct plugin;
struct plugin_function;

/* The name in a request: `name` for ./dir/name.so. Returns its length. */
size_t plugin_base_name(const char *request, const char **ret_name);
const char *plugin_title(const struct plugin *p); /* its own name, else its request */
/* name "": the main function. NULL: there is none */
struct plugin_function *plugin_find_function(struct plugin *p, const char *name);
