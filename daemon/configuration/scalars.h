/* SPDX-License-Identifier: Apache-2.0
 *
 * scalars.h: single values. [any]
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* What would have been right, for errors. */
#define WANTED_BOOL    "yes or no"
#define WANTED_TIME    "a time of at least 1, up to a year, such as 90s (ms, s, min, h, d)"
#define WANTED_WORKERS "a number of workers from 1 to 1024"
#define WANTED_TASKS   "a number of processes and threads of at least 1"
#define WANTED_MEMORY  "none, or a size from 1M to 1024T, such as 4G"
#define WANTED_WEIGHT  "a weight from 1 to 10000 (others have 100)"
#define WANTED_RUNNING "a number of jobs from 1 on"

int scalar_bool(const char *value); /* 1, 0, or -EINVAL */
/* Each returns 0, or -EINVAL and leaves *ret as it is. Sizes are in bytes, times in us. */
int scalar_count(const char *value, uint64_t *ret); /* at least 1 */
int scalar_size(const char *value, uint64_t *ret);  /* at least 1 */
int scalar_time(const char *value, uint64_t *ret);
int scalar_id(const char *value, uint64_t *ret); /* of a user */
int scalar_workers(const char *value, uint32_t *ret);
int scalar_weight(const char *value, uint32_t *ret);
int scalar_running(const char *value, uint32_t *ret);
int scalar_tasks(const char *value, uint64_t *ret);
int scalar_memory(const char *value, uint64_t *ret); /* 0: none */

void scalar_print_bound(uint64_t bytes, FILE *to); /* 0: none, UINT64_MAX: unlimited */
