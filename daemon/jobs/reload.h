/* SPDX-License-Identifier: Apache-2.0
 *
 * reload.h: `wsctl plugin reload`: a plugin's file is loaded now, and takes the place of the one in use where it
 * can be. [loop]
 */
#pragma once

#include "jobs/job.h"

bool reload_tries(const struct plugin *p); /* its file is being tried by another executor: not to be loaded yet */
/* the executor ended: true where the domain was for a probe only, and is freed */
bool reload_gone(struct domain *d);
void reload_rearm(struct probe *t); /* see jobs_rearm() */
struct probe *reload_probe_free(struct probe *t);
bool reload_under_way(struct domain *d, const char *request);
/* its load has come to an end: it is in the place of the old one, or is forgotten */
void reload_settled(struct plugin *p);
void reload_describe(const struct plugin *p, struct plugin_info *ret);
struct plugin_reload *reload_free(struct plugin_reload *r);
