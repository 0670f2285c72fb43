/* SPDX-License-Identifier: Apache-2.0
 *
 * runner-wait.h: jobs that wait for a runner that is not there. [loop]
 */
#pragma once

#include "domains/runner-names.h"

#define RUNNERS_AWAITED 32u /* functions of a name that jobs may wait for before a runner has offered them */

/* Whether no runner says which functions the jobs of this domain may have. */
bool runners_leave_open(const struct domain *d);
/* The function of this plugin of runners that a job waits for, or that it has at a place. NULL: why it cannot. */
struct plugin_function *runners_await(struct plugin *p, const char *function, struct refusal *ret);
/* The function of this name, which is made where no runner has offered it. NULL: too many, or no memory. */
struct plugin_function *runners_expect(struct plugin *p, const char *function, uint64_t flags);
void runners_queued(struct job *job); /* it is in the queue of its domain, perhaps of a name */
/* No runner is there: starts the time for which jobs wait for one. Also where the timer could not be set. */
void runners_rearm(struct runners *g);
/* Ends the jobs of this name that have waited for too long. */
void runners_look(struct runners *g);
