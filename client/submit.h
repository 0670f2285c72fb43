/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.h: makes calls: SUBMIT and AWAIT. One thread a handle.
 */
#pragma once

#include "call.h"

/* The call of a job that goes in an array, and gets its frames through that. 0, -EINVAL, -ENOMEM: said. */
int submit_prepare(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
                   struct wsd_call **ret_call);
/* What the program says of a job, for SUBMIT and SCHEDULE: all but arguments, tags, input, output and flags. Of the
 * flags it has DURABLE. */
struct msg_submit submit_fields(const struct wsd_submit *submit);
/* What wsd has to know for it, as bits FEATURE_...; 0: any wsd knows such a job. */
uint64_t submit_features(const struct wsd_submit *submit);
/* SUBMIT without input; lives as long as submit, call and tags. 0 or an error, said. */
int submit_message(const struct wsd_submit *submit, const struct wsd_call *call, char tags[static CODEC_TAGS_MAX],
                   struct msg *ret);
/* A job by itself: with input of any size, in a request of its own. batch: that it belongs to, which wsd knows by this
 * tag; NULL and 0. 0 or an error, said. */
int submit_alone(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
                 struct call_unit *batch, uint32_t batch_tag, struct wsd_call **ret_call);
