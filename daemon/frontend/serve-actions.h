/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-actions.h: who has changed something of late, and for whom: ACTIONS and PERSON. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_actions(struct request *r);
void serve_person(struct request *r);
