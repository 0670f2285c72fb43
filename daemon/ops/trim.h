/* SPDX-License-Identifier: Apache-2.0
 *
 * trim.h: gives memory back to the kernel after a burst of jobs. [loop]
 */
#pragma once

#include <event2/event.h>

#include "jobs/jobs.h"

struct trim;

/* Returns 0 or -ENOMEM. */
int trim_new(struct trim **ret, struct event_base *base, struct jobs *jobs);
struct trim *trim_free(struct trim *t); /* NULL is fine; returns NULL */
/* Called whenever the loop is about to sleep. NULL is fine. */
void trim_look(struct trim *t);
