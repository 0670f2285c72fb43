/* SPDX-License-Identifier: Apache-2.0
 *
 * person.h: the person behind the requests of a connection, as its client names them: PERSON. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_person(struct request *r);
/* Writes into the log what a request is about to change, and for whom, if its client has named somebody. */
void person_note(const struct peer *p, const struct msg *m);
