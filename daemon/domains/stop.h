/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.h: stops jobs that an executor has. Both are for RUNNING jobs. [loop]
 */
#pragma once

#include "table/job.h"

void stop_running(struct job *job, enum job_stop why); /* may end and free the job */
void stop_timer(struct job *job);                      /* its timer has run out */
