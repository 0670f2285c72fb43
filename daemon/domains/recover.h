/* SPDX-License-Identifier: Apache-2.0
 *
 * recover.h: recovers the jobs of an executor that died. [loop]
 */
#pragma once

#include "table/job.h"

void recover(struct domain *d, int code, int status);
