/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-functions.h: how the jobs of functions have ended, and how long they took: FUNCTIONS. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_functions(struct request *r);
