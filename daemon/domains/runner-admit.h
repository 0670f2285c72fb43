/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-admit.h: names of runners, and which jobs go to one. [loop]
 */
#pragma once

#include "domains/runner-names.h"

/* As struct domain_part. */
int runners_init(struct domain *d); /* 0 */
void runners_deinit(struct domain *d);

/* Whether a runner may have this name. */
bool runners_is_name(const char *name);
/* Whether the plugin directories have a plugin of this name; then with the words of a refusal. */
bool runners_is_plugin(struct jobs *jobs, const char *name, char words[static JOB_TEXT]);
/* Counts the runners of this user, and the names that are this user's. Forgets names that nothing needs. */
void runners_count(const struct jobs *jobs, uint32_t uid, uint32_t *ret_runners, uint32_t *ret_names);
/* Why a job of these runners cannot have its input in an arena, or its output if it writes; NULL: it can. */
const char *runners_refuse_arena(const struct runners *g, bool writes);
/* The name for the runners and jobs of this user, which is made where it is not known. NULL: no memory. */
struct runners *runners_get(struct jobs *jobs, uint32_t uid, const char *name);

/* Decides where a request goes that names this plugin. Returns 0 with the domain, or with NULL: that is no name of
 * runners. Returns 1: it is refused. May forget names, so that domains of theirs are no more. */
int runners_admit(struct jobs *jobs, const struct job_request *r, const char *request, struct domain **ret_domain,
                  struct refusal *ret);
/* The same for a job that was admitted by an earlier wsd. NULL: no memory. */
struct domain *runners_readmit(struct jobs *jobs, uint32_t uid, const char *request);
