/* SPDX-License-Identifier: Apache-2.0
 *
 * scan.h: wsd_scan() of wsd/forms.h. [worker: the task that calls]
 */
#pragma once

#include "wsd/forms.h"

int form_scan(struct wsd_worker *self, struct wsd_group *group, const struct wsd_scan_args *scan);
