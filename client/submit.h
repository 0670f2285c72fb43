/* SPDX-License-Identifier: Apache-2.0
 *
 * submit.h: makes calls: SUBMIT and AWAIT. One thread a handle.
 */
#pragma once

#include "call.h"

/* Bytes of the arguments, each with its NUL; SIZE_MAX: above the limits. */
size_t submit_args_size(const char *const *args, size_t n_args);
/* The call of a job that is to be submitted: by one of the functions below, array_submit() or direct_submit(). If that
 * fails, the call is still the caller's. 0, -EINVAL, -ENOMEM: said. */
int submit_prepare(struct wsd_client *client, const struct wsd_submit *submit, const struct wsd_callbacks *callbacks,
                   struct wsd_call **ret_call);
/* What the program says of a job, for SUBMIT and SCHEDULE: all but arguments, tags, input, output and flags. Of the
 * flags it has DURABLE. */
struct msg_submit submit_fields(const struct wsd_submit *submit);
/* Whether an option is given, by the letter of its row in submit-options.h. */
#define SUBMIT_HAS_TEXT(submit, name)   ((submit)->name && (submit)->name[0])
#define SUBMIT_HAS_NUMBER(submit, name) ((submit)->name != 0)
#define SUBMIT_HAS_LIST(submit, name)   ((submit)->n_##name > 0)
/* What wsd has to know for it, as bits FEATURE_...; 0: any wsd knows such a job. */
uint64_t submit_features(const struct wsd_submit *submit);
/* SUBMIT without input; lives as long as submit, call and tags. 0 or an error, said. */
int submit_message(const struct wsd_submit *submit, const struct wsd_call *call, char tags[static CODEC_TAGS_MAX],
                   struct msg *ret);
/* As it was before anything was sent of it: for the connection that the handle has now. */
void submit_renew(struct wsd_call *call, const struct wsd_submit *submit);
/* A job by itself: with input of any size, in a request of its own. By batch_tag wsd knows the batch of the call; 0:
 * none. Returns 0 or an error, said. */
int submit_alone(struct wsd_call *call, const struct wsd_submit *submit, uint32_t batch_tag);
