/* SPDX-License-Identifier: Apache-2.0
 *
 * job-watch.h: calls that follow one job. [loop]
 */
#pragma once

#include "frontend/call.h"

/* Opens the call of a SUBMIT, or of an AWAIT. NULL: the request was answered already. */
struct call *job_call_new(struct peer *p, uint32_t tag, bool submits, bool progress);
bool call_has_job(const struct call *c);
/* The call waits for the next wsd. False: it cannot. */
bool job_call_defer(struct call *c, const uint8_t id[16]);

void send_job(const struct job_info *info, void *call); /* JOB */
/* Makes the OPEN of a job of this item that wants the client's file; an answer is awaited from now on. Returns 0 or a
 * negative errno. */
int open_prepare(struct call *c, uint32_t serial, const char *path, uint32_t item, struct msg *ret);
