/* SPDX-License-Identifier: Apache-2.0
 *
 * workers.h: words and sums of what wsd tells of workers.
 */
#pragma once

#include <stdint.h>

#include "wsd/client.h"

const char *worker_kind_name(enum wsd_worker_kind kind);
/* 0 where there is none of that name. */
uint64_t worker_counter(const struct wsd_worker_info *info, const char *name);
/* Roots, ready pieces and stolen tasks: what was run beside the children that a task called itself. */
uint64_t worker_run(const struct wsd_worker_info *info);
/* What wsd_executor_info.error says. */
const char *executor_error_text(int error);
