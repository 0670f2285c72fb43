/* SPDX-License-Identifier: Apache-2.0
 *
 * policy-hooks.h: what the job table calls for a job that is durable, or has a key or retries.
 */
#pragma once

#include "table/hooks.h"

extern const struct policy_hooks policy_hooks;
