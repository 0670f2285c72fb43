/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.h: the table of wsd/task.h; for the files of this folder only.
 */
#pragma once

#include "wsd/task.h"

extern const struct wsd_task_ops worker_ops;
