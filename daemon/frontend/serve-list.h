/* SPDX-License-Identifier: Apache-2.0
 *
 * serve-list.h: jobs by their properties: LIST, LIST_WHERE, CANCEL_WHERE. [loop]
 */
#pragma once

#include "frontend/call.h"

void serve_list(struct request *r);
void serve_list_where(struct request *r);
void serve_cancel_where(struct request *r);
void list_jobs(struct request *r, const struct jobs_filter *filter);
