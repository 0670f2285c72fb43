/* SPDX-License-Identifier: Apache-2.0
 *
 * history.h: what wsd has counted over time: an hour by the second, and seven days by the minute, in a room that does
 * not grow. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_SECONDS 3600u
#define HISTORY_MINUTES (7u * 24u * 60u)
#define HISTORY_SERIES  16u /* at most */

/* Values at one time. A series without a value there has NAN. */
struct sample {
    uint64_t time; /* in steps since the epoch; 0: there is none */
    float values[HISTORY_SERIES];
};

enum history_span { HISTORY_HOUR, HISTORY_WEEK };

/* Zero-initialised, with `n_series` set, is empty. */
struct history {
    uint32_t n_series;
    struct sample seconds[HISTORY_SECONDS], minutes[HISTORY_MINUTES];
    uint32_t n_in_minute[HISTORY_SERIES]; /* values that the present minute is the mean of */
};

/* Notes the values at a time, in seconds since the epoch. A second value for the same second replaces the first. A minute
 * has the mean of its seconds. A time before the latest one is left out: the clock was set back. */
void history_add(struct history *h, uint64_t seconds, const float values[static HISTORY_SERIES]);
/* Calls each() for the samples that there are, the oldest first. `time` is in seconds since the epoch. */
void history_each(const struct history *h, enum history_span span,
                  void (*each)(uint64_t time, const float *values, void *context), void *context);
