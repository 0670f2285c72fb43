/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-actions.h: the last changes, with the user and the person of each: ACTIONS and PERSON. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_actions(struct request *r);
void serve_person(struct request *r);
