/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-array.h: ARRAY. [loop]
 */
#pragma once

#include "frontend/call.h"

/* limit of an ARRAY's items times the jobs that each runs after: together they are one request */
#define ARRAY_AFTER_MAX 65536u

void serve_array(struct request *r);
void arrays_flush(struct peer *p); /* moves the gathered output into the output buffer */
