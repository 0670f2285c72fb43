/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h: which plugins the plugin directories have. [loop]
 */
#pragma once

#include "jobs/job.h"

void names_deinit(struct names *n);
