/* SPDX-License-Identifier: Apache-2.0
 *
 * admission.h: users' limits and charges, and the directories that jobs share. [loop]
 */
#pragma once

#include "table/job.h"

struct user *user_get(struct jobs *jobs, uint32_t uid);
/* the limits in force for this user */
static inline const struct jobs_limits *user_limits(const struct jobs *jobs, const struct user *user)
{
    return user->own_limits ? user->own_limits : &jobs->options.limits;
}
/* Drops the oldest kept result that no watch reads. False: those looked at are being read, or there is none. */
bool user_evict(struct user *user);
/* Charges the bytes. Returns 0; -ENOSPC: max-bytes-per-user is reached; -EDQUOT: max-bytes is. user_charge_words() has
 * the words. */
int user_charge(struct jobs *jobs, struct user *user, uint64_t bytes);
/* The same for a request that is refused as a whole. *ret_retry_usec is when to try again; it stays untouched where
 * there will never be room. */
int user_admit(struct jobs *jobs, struct user *user, uint64_t bytes, uint64_t *ret_retry_usec);
const char *user_charge_words(int error);
void user_refund(struct jobs *jobs, struct user *user, uint64_t bytes);
