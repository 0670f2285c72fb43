/* SPDX-License-Identifier: Apache-2.0
 *
 * effects.h: what follows from the configuration for executors and plugins. [loop]
 */
#pragma once

#include "configuration/configuration.h"

/* Returns the settings of each trust domain; the first is for all users in no other. They point into the configuration.
 * The caller frees the array. NULL: no memory. */
struct jobs_domain *config_domains(const struct config *c, uint32_t *ret_n);
/* Returns the description of the executors' sandbox, in the format of ring/control.h, without the memory. The caller
 * frees. NULL: no memory. */
char *config_sandbox(const struct config *c, bool is_system);
/* The users of a plugin, or of a name of runners; NULL: every submitter. */
const struct access_list *config_plugin_users(const struct config *c, const char *name);
/* What holds for runners of this name. */
struct runner_rules config_runner_rules(const struct config *c, const char *name);
/* Whose runners may have this name, for jobs of all users; NULL: every user's, for the user's own jobs. */
const struct access_list *config_runner_offer(const struct config *c, const char *name);
/* Whether a plugin is on. opt_in: it is off unless the configuration turns it on. */
bool config_plugin_enabled(const struct config *c, const char *name, bool opt_in);
/* Whether it has an executor of its own. */
bool config_plugin_own(const struct config *c, const char *name);
/* Sets in *settings what the plugin's own executor has other than its user's domain. */
void config_plugin_share(const struct config *c, const char *name, struct jobs_domain *settings);
/* The longest run of a job of this plugin; 0: any. *ret_of: the plugin that has it in its section, or NULL:
 * [limits]. */
uint64_t config_plugin_max_run(const struct config *c, const char *name, const char **ret_of);
