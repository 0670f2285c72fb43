/* SPDX-License-Identifier: Apache-2.0
 *
 * policy-hooks.c: what the job table calls for a job that is durable, or has a key or retries.
 * Owns nothing. [loop] */
#include "durable/policy-hooks.h"

#include "durable/durable.h"
#include "durable/results.h"
#include "durable/retry.h"

const struct policy_hooks policy_hooks = {.add = durable_add,
                                          .before = durable_before,
                                          .stop = durable_stop,
                                          .retry = retry_again,
                                          .closing = durable_closing,
                                          .end = durable_end,
                                          .keep = durable_keep,
                                          .rest = durable_rest,
                                          .fetch = durable_fetch,
                                          .free = policy_free};
