/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h: the functions of a plugin, as people and programs see them.
 */
#pragma once

#include "json-write.h"
#include "wsd/client.h"

void plugin_functions_json(const struct wsd_plugin_info *info, struct json *json);
/* A line for each. as: the plugin as it was asked for; NULL: by its name. */
void plugin_functions_print(const struct wsd_plugin_info *info, const char *as);
