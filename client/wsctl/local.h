/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h: a job inside wsctl, without a daemon.
 */
#pragma once

#include "ctl.h"
#include "submit-options.h"

/* Runs it. Returns the exit code. */
int submit_local(const struct ctl *ctl, const struct submit_options *options);
