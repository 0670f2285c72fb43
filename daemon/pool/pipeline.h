/* SPDX-License-Identifier: Apache-2.0
 *
 * pipeline.h: wsd_pipeline() of wsd/forms.h. [worker: the task that calls]
 */
#pragma once

#include "wsd/forms.h"

int form_pipeline(struct wsd_worker *self, struct wsd_group *group, const struct wsd_stage *stages, uint32_t n_stages,
                  uint32_t tokens, wsd_drop_fn *drop, void *arg);
