/* SPDX-License-Identifier: Apache-2.0
 *
 * future.h: the functions behind wsd/future.h, for the table in join.c.
 */
#pragma once

#include "wsd/future.h"

void future_begin(struct wsd_worker *self, struct wsd_future *future);
void future_start(struct wsd_worker *self, struct wsd_future *future, wsd_future_fn *fn, void *arg);
void future_set(struct wsd_future *future, void *value, int error);
int future_wait(struct wsd_worker *self, struct wsd_future *future, void **ret_value);
bool future_done(const struct wsd_future *future);
bool future_help(struct wsd_future *future);
