/* SPDX-License-Identifier: Apache-2.0
 *
 * domain-parts.h: the features of which each domain has its part. [loop]
 */
#pragma once

#include "domains/domain.h"

extern const struct domain_part domain_parts[]; /* ends with one without calls */
