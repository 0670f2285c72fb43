/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-await.h: AWAIT, STATUS, CANCEL, FORGET, CREDIT, OPENED. [loop]
 */
#pragma once

#include "frontend/call.h"

#include "frontend/handover.h"

void serve_await(struct request *r);
void serve_status(struct request *r);
void serve_cancel(struct request *r);
void serve_forget(struct request *r);
void serve_credit(struct request *r);
void serve_opened(struct request *r);
/* Answers a CANCEL by id. result: 0, -EALREADY where the target had ended, or another error, for which `none` has the
 * words. */
void send_cancelled(const struct request *r, int result, const char *none);
/* Takes over an open call of a connection that another wsd has had. */
void await_take(struct peer *p, const struct handover_call *k);
