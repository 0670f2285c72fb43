/* SPDX-License-Identifier: Apache-2.0
 *
 * domain-hooks.c: what the job table calls in the executors' side.
 * Owns nothing. [loop] */
#include "domains/domain-hooks.h"

#include "domains/arena.h"
#include "domains/bundle.h"
#include "domains/domain.h"
#include "domains/hand-over.h"
#include "domains/job-breaker.h"
#include "domains/lifetime.h"
#include "domains/stop.h"

const struct domain_hooks domain_hooks = {.queued = domain_queued,
                                          .stop = stop_running,
                                          .timer = stop_timer,
                                          .ended = job_breaker_ended,
                                          .ready = domain_ready,
                                          .distrust = domain_distrust,
                                          .arena_free = arena_free,
                                          .split = bundle_split,
                                          .find = bundles_find};
