/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-limits.h: GATE and LIMIT. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_gate(struct request *r);
void serve_limit(struct request *r);
