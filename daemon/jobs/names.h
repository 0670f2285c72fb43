/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h: the names of the plugins in the plugin directories. [loop]
 */
#pragma once

#include "jobs/job.h"

void names_deinit(struct names *n);
