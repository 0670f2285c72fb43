/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-executors.h: WORKERS and TRACE. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_workers(struct request *r);
void serve_trace(struct request *r);
