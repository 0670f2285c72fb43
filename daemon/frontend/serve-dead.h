/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-dead.h: DEAD. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_dead(struct request *r);
