/* SPDX-License-Identifier: Apache-2.0
 *
 * check.h: what a configuration says that this machine cannot do. [before the loop, and in it at a reload]
 */
#pragma once

#include "ops/configuration.h"

/* Looks with the rights of this process. Each fault is told with its key, and with file and line where it stands in
 * one: those with which the next start or each job would fail, and (warning) what has no effect. 0; -EINVAL: there is
 * one of the first; -EAGAIN: none, as far as is known: the user database could not be asked. */
int config_examine(const struct config *c, void (*say)(bool warning, const char *text, void *userdata), void *userdata);
