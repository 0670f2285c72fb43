/* SPDX-License-Identifier: Apache-2.0
 *
 * domain-hooks.h: what the job table calls in the executors' side.
 */
#pragma once

#include "table/hooks.h"

extern const struct domain_hooks domain_hooks;
