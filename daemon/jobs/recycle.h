/* SPDX-License-Identifier: Apache-2.0
 *
 * recycle.h: a fresh executor in the place of one that has done much or has grown, without a gap. [loop]
 */
#pragma once

#include "jobs/job.h"

void recycle_look(struct domain *d, uint32_t n);           /* so many jobs have ended */
void recycle_spoilt(struct domain *d, const char *reason); /* by its jobs */
/* it cannot load a plugin; false: and no other executor will */
bool recycle_starved(struct domain *d, const char *reason);
void recycle_abandon(struct domain *d);                          /* the one that stands by is not wanted any more */
void recycle_ready(struct domain *n);                            /* the executor that stands by is there */
void recycle_control(struct domain *n, const struct control *c); /* LOADED, FUNCTION of the standby */
/* recover() is done; frees the domain where it was for this executor only. */
bool recycle_gone(struct domain *d);
