/* SPDX-License-Identifier: Apache-2.0
 *
 * owners.h: which users share an executor. [loop]
 */
#pragma once

#include "table/job.h"

#define OWNER_SHARED (1ull << 32) /* above every uid: the number of a domain of several users */

/* The owner of the executor for a user's jobs: the uid; a number above every uid where the user shares one. */
uint64_t domain_owner(const struct jobs *jobs, uint32_t uid);
/* The configured settings of the owner's executors. */
const struct jobs_domain *owner_settings(const struct jobs *jobs, uint64_t owner);
/* The owner's shared domain (own NULL), or that of one plugin. NULL: there is none. */
struct domain *domain_find(const struct jobs *jobs, uint64_t owner, const char *own);
