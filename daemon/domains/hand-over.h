/* SPDX-License-Identifier: Apache-2.0
 *
 * hand-over.h: hands the jobs of a domain's queue over to its executor. [loop]
 */
#pragma once

#include "table/job.h"

void domain_pump(struct domain *d); /* hands over as many jobs as fit */
/* Why jobs of that domain cannot write to a descriptor of their submitter's. NULL: they can. */
const char *hand_over_refuses_output(const struct domain *d);
void domain_queued(struct job *job); /* it came into its queue. May end and free the job */
