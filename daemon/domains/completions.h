/* SPDX-License-Identifier: Apache-2.0
 *
 * completions.h: takes from the rings what an executor says of its jobs. [loop]
 */
#pragma once

#include "table/job.h"

#define DOMAINS_TAKE 1024u /* completions taken in one turn of the loop, all domains; a KiB of output counts as one */
bool domain_poll(struct domain *d); /* takes a batch of completions; true: there may be more */
void domain_complete(struct domain *d, const struct front_completion *c);
