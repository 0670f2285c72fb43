/* SPDX-License-Identifier: Apache-2.0
 *
 * parse.h: what people write in the place of numbers, durations and plugins.
 */
#pragma once

#include <stdint.h>

/* 0 or -1. `10`, `1.5s`, `500ms`, `1min 30s`, `2h`. */
int parse_duration(const char *text, uint64_t *ret_usec);
int parse_number(const char *text, long long min, long long max, long long *ret);
/* Splits PLUGIN[:FUNCTION] in place: *ret_function is NULL where there is none. 0 or -1. */
int parse_plugin(char *text, const char **ret_function);
