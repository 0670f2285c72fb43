/* SPDX-License-Identifier: Apache-2.0
 *
 * list.h: jobs, a line each.
 */
#pragma once

#include "ctl.h"

/* A line, or an object, for each job; userdata is the ctl. */
void list_heading(const struct ctl *ctl);
int list_show(const struct wsd_job_info *info, void *userdata);
