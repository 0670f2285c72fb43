/* SPDX-License-Identifier: Apache-2.0
 *
 * sort.h: wsd_sort() of wsd/forms.h. [worker: the task that calls]
 */
#pragma once

#include "wsd/forms.h"

int form_sort(struct wsd_worker *self, struct wsd_group *group, void *base, uint64_t count, size_t size,
              wsd_compare_fn *compare, void *arg);
