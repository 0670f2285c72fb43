/* SPDX-License-Identifier: Apache-2.0
 *
 * watches.h: the list of a job's watches. [loop]
 */
#pragma once

#include <stdbool.h>

struct job;
struct watch;

/* The watch of the one that has submitted the job; NULL: it has gone. */
struct watch *job_owner(const struct job *job);
/* w->owner: it is the job's owner, unless the job has one. */
void job_add_watch(struct job *job, struct watch *w);
void job_remove_watch(struct watch *w);      /* its cost does not grow with the job's other watches */
void watch_late(struct watch *w, bool late); /* sets w->late, and counts it in n_unread */
