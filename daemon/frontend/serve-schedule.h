/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-schedule.h: SCHEDULE. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_schedule(struct request *r);
