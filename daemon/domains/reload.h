/* SPDX-License-Identifier: Apache-2.0
 *
 * reload.h: `wsctl plugin reload`: loads a plugin's file now, and replaces the one in use if that succeeds. [loop]
 */
#pragma once

#include "domains/plugin-query.h"
#include "table/job.h"

struct probe;

int reload_init(struct domain *d); /* 0 */
void reload_deinit(struct domain *d);
bool reload_tries(const struct plugin *p); /* another executor is trying its file: it must not be loaded yet */
/* the executor ended; true: the domain was for a probe only, and is freed */
bool reload_gone(struct domain *d);
void reload_rearm(struct probe *t); /* see timers.h */
bool reload_under_way(struct domain *d, const char *request);
/* its load has ended: it replaced the old entry, or is dropped */
void reload_settled(struct plugin *p);
void reload_describe(const struct plugin *p, struct plugin_info *ret);
struct plugin_reload *reload_free(struct plugin_reload *r);
