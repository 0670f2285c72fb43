/* SPDX-License-Identifier: Apache-2.0
 *
 * state.h: the table of a job's legal state changes. [loop]
 */
#pragma once

#include "table/job.h"

void job_move(struct job *job, enum job_state state);
