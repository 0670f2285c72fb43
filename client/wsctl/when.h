/* SPDX-License-Identifier: Apache-2.0
 *
 * when.h: times as people write them.
 */
#pragma once

#include <stdint.h>

/* A time of day or a date, after now (microseconds since the epoch). 0 or -1. */
int parse_when(const char *text, uint64_t now_usec, uint64_t *ret_usec);
