/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h: finds what a configuration wants that this machine cannot do. [before the loop, and in it at a reload]
 */
#pragma once

#include "configuration/configuration.h"

/* Checks with the rights of this process. Reports each fault with its key, and with file and line if it stands in one.
 * Without `warning`, the fault makes the next start or each job fail; with `warning`, the setting has no effect.
 * Returns 0; -EINVAL: there are faults of the first kind; -EAGAIN: none is known, but something could not be
 * looked at, and that was reported. */
int config_examine(const struct config *c, void (*say)(bool warning, const char *text, void *userdata), void *userdata);
