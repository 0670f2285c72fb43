/* SPDX-License-Identifier: Apache-2.0
 *
 * domain-parts.c: the features of which each domain has its part.
 * Owns nothing. [loop]
 * The order counts: what an executor has is let go before the executor is, and its plugins after it. */
#include "domains/domain-parts.h"

#include "domains/arena.h"
#include "domains/bundle.h"
#include "domains/direct-lane.h"
#include "domains/health.h"
#include "domains/lifetime.h"
#include "domains/plugins.h"
#include "domains/query.h"
#include "domains/recall.h"
#include "domains/reload.h"
#include "domains/runner-admit.h"

const struct domain_part domain_parts[] = {
    {runners_init, runners_deinit},
    {recall_init, recall_deinit},
    {bundle_init, bundle_deinit},
    {health_init, health_deinit},
    {reload_init, reload_deinit},
    {plugins_init, plugins_deinit},
    {lifetime_init, lifetime_deinit},
    {arenas_init, arenas_gone},
    {lanes_init, lanes_deinit},
    {query_init, query_executor_gone},
    {NULL, NULL},
};
