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
#define HISTORY_BACK    60u /* seconds that the clock may be set back, and what was noted stays */

/* Values at one time. A series without a value there has NAN. */
struct sample {
    uint64_t time; /* in steps since the epoch; 0: there is none */
    float values[HISTORY_SERIES];
};

enum history_span { HISTORY_HOUR, HISTORY_WEEK };

/* As it is in memory, it is in its file, too. Zero-initialised, with `n_series` set, is empty. */
struct history {
    char magic[8];
    uint32_t n_series;
    struct sample seconds[HISTORY_SECONDS], minutes[HISTORY_MINUTES];
    uint32_t n_in_minute[HISTORY_SERIES]; /* values that the present minute is the mean of */
};

#define HISTORY_MAGIC "wsdhist1" /* of this layout, and of these series */

/* Makes one in memory (path NULL), or opens that of a file, which is made if need be. A file that has another layout is
 * begun anew. Samples of a time after now are left out: the clock was wrong. Samples are in the file when they are noted, whatever becomes of the process. Returns 0; -EWOULDBLOCK:
 * another process has the file; -EINVAL: it is no regular file; or another negative errno. */
int history_open(struct history **ret, const char *path, uint32_t n_series, uint64_t now_seconds);
/* NULL is fine. Returns NULL. */
struct history *history_close(struct history *h);
/* Notes the values at a time, in seconds since the epoch. A second value for the same second replaces the first. A minute
 * has the mean of its seconds. A time before the latest one is left out: the clock was set back. If it is more than
 * HISTORY_BACK before that, the clock was wrong: samples of a later time go. */
void history_add(struct history *h, uint64_t seconds, const float values[static HISTORY_SERIES]);
/* Calls each() for the samples that there are, the oldest first. `time` is in seconds since the epoch. */
void history_each(const struct history *h, enum history_span span,
                  void (*each)(uint64_t time, const float *values, void *context), void *context);
