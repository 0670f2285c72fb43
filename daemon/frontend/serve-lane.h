/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-lane.h: direct lanes: LANE_OPEN, LANE_BIND, LANE_WAITS, LANE_CLOSE. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_lane_open(struct request *r);
void serve_lane_bind(struct request *r);
void serve_lane_waits(struct request *r);
void serve_lane_close(struct request *r);
