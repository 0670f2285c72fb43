/* SPDX-License-Identifier: Apache-2.0
 *
 * results.h: durable jobs that have ended: on disk until they expire, or, out of retries, until somebody decides.
 * [loop]
 */
#pragma once

#include "jobs/policy.h"

bool durable_keep(struct job *job);  /* ended and told: true where the store keeps it */
void durable_rest(struct job *job);  /* nobody follows it any more: what is on disk goes from memory */
bool durable_fetch(struct job *job); /* true where its output is read back first */
/* Whether so many bytes more of this user have room. Drops his oldest ends as far as needed, and nobody else's. */
bool durable_room(struct jobs *jobs, struct user *user, uint64_t bytes);
void durable_count(struct job *job, uint64_t bytes); /* it takes so many on disk now */
void durable_unsaved(struct job *job);
void kept_insert(struct job *job, uint64_t left_usec); /* ended, on disk, to expire then */
int durable_code(int error);                           /* exit code of wsctl(1) */
int kept_init(struct jobs *jobs);                      /* 0 or -ENOMEM */
void kept_deinit(struct jobs *jobs);
void kept_rearm(struct jobs *jobs); /* see jobs_rearm() */
