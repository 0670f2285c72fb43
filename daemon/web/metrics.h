/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h: what wsd has, in the text that Prometheus reads. [any]
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"

/* Histograms of times have these bounds: 1 us, and each four times the last one, up to 67 s. */
#define METRICS_BOUNDS        14u
#define METRICS_BOUND_USEC(n) (UINT64_C(1) << 2 * (n))

/* Appends a look (collector.h) as Prometheus' text format 0.0.4, or as OpenMetrics 1.0. `look` NULL: wsd does not answer,
 * which is `wsd_up 0`. Returns 0 or -ENOMEM. */
int metrics_write(struct buffer *to, const json_t *look, bool openmetrics);
