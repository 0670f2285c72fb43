/* SPDX-License-Identifier: Apache-2.0
 *
 * note.h: notes what a request is about to change: among the last actions, and in the log. [loop]
 */
#pragma once

#include "frontend/call.h"

/* Notes it if its client has named a person, or if it is more than its user's own business. Then request_refuse() and
 * call_refuse() tell how it ended. */
void note_action(struct request *r);
