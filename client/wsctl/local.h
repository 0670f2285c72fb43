/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h: a job inside wsctl, without a daemon.
 */
#pragma once

#include "ctl.h"
#include "submit-options.h"

struct local_measure;

/* Runs it for its numbers: its output goes nowhere, and it has no input. *ret_usec: how long it ran. measure may be NULL.
 * 0 or the exit code, said. */
int local_probe(const struct ctl *ctl, const struct submit_options *options, struct local_measure *measure,
                uint64_t *ret_usec);
/* Runs it. Returns the exit code. */
int submit_local(const struct ctl *ctl, const struct submit_options *options);
