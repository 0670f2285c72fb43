/* SPDX-License-Identifier: Apache-2.0
 *
 * each.h: wsd_for_each() and wsd_find_first() of wsd/forms.h. [worker: the task that calls]
 */
#pragma once

#include "wsd/forms.h"

int form_for_each(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                  wsd_each_fn *body, void *arg);
int form_find_first(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, uint64_t grain,
                    wsd_find_fn *find, void *arg, uint64_t *ret_index);
