/* SPDX-License-Identifier: Apache-2.0
 *
 * recycle.h: replaces an executor that has run many jobs or has grown, without a gap. [loop]
 */
#pragma once

#include "jobs/job.h"

void recycle_look(struct domain *d, uint32_t n);           /* n jobs have ended */
void recycle_spoilt(struct domain *d, const char *reason); /* its jobs have spoilt the executor */
/* it cannot load a plugin; false: nor could another executor */
bool recycle_starved(struct domain *d, const char *reason);
void recycle_abandon(struct domain *d);                          /* drops the standby */
void recycle_ready(struct domain *n);                            /* the standby's executor is ready */
void recycle_control(struct domain *n, const struct control *c); /* LOADED or FUNCTION from the standby */
/* Called when recover() is done. True: the domain was for this executor only, and is freed. */
bool recycle_gone(struct domain *d);
