/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-batch.h: BATCH. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_batch(struct request *r);
/* Puts the job into the open batch with this tag. Returns NULL, or why not, with its code. */
const char *batch_join(struct peer *p, uint32_t tag, struct job_request *job, uint32_t *ret_code);
