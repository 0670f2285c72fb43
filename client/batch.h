/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h: many jobs of one function as a unit. One thread a handle.
 */
#pragma once

#include "array.h"

/* When the wait for it ends that begins now and is given no time of its own. */
uint64_t batch_deadline(const struct wsd_batch *batch);
/* wsd_batch_submit() to one that takes it, whatever waits to be sent. */
int batch_submit(struct wsd_batch *batch, const struct wsd_item *item, const struct wsd_callbacks *callbacks,
                 struct wsd_call **ret_call);
/* Its items need be no calls: array_submit_bare() */
void batch_set_owner(struct wsd_batch *batch, struct item_owner *owner);
/* Submits the item at this place of that owner, which is told its end. 0 or an error, said; 1: it has to be a call, by
 * wsd_batch_submit(). */
int batch_submit_bare(struct wsd_batch *batch, const struct wsd_item *item, size_t place);
/* No callback is under way any more: some were left by an exception or longjmp(). */
void batches_tear(struct wsd_client *client);
void batches_free(struct wsd_client *client);
