/* SPDX-License-Identifier: Apache-2.0
 *
 * requeue.h: jobs that go back from an executor to their queue. [loop]
 */
#pragma once

#include "table/job.h"

/* RUNNING, and the executor is gone: puts it at the head of its queue. */
void domain_requeue(struct job *job);
/* The same for a job of a living executor that no worker has begun or will begin. recalled: its slot was taken back. */
void domain_take_back(struct job *job, bool recalled);
