/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.h: wsd_reduce() of wsd/forms.h. [worker: the task that calls]
 */
#pragma once

#include "wsd/forms.h"

int form_reduce(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                const struct wsd_reduction *reduction, void *ret_value);
