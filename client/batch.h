/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h: many jobs of one function as a unit. One thread a handle.
 */
#pragma once

#include "array.h"

/* Its items need be no calls: array_submit_bare() */
void batch_set_owner(struct wsd_batch *batch, struct item_owner *owner);
/* Submits the item at this place of that owner, which is told its end. 0 or an error, said; 1: it has to be a call, by
 * wsd_batch_submit(). */
int batch_submit_bare(struct wsd_batch *batch, const struct wsd_item *item, size_t place);
void batches_free(struct wsd_client *client);
