/* SPDX-License-Identifier: Apache-2.0
 *
 * history.c: rings of samples, in which each time has one place. So what was not looked at leaves a gap, and an old sample
 * is told from a new one by its time.
 * Owns nothing. */
#include "web/history.h"

#include <math.h>
#include <string.h>

static void put(struct sample *at, uint64_t time, const float *values, uint32_t n)
{
    at->time = time;
    memcpy(at->values, values, n * sizeof(*values));
}

/* Takes the values into the mean of the minute. */
static void add_to_minute(struct history *h, uint64_t minute, const float *values)
{
    struct sample *at = &h->minutes[minute % HISTORY_MINUTES];

    if (at->time != minute) {
        memset(h->n_in_minute, 0, sizeof(h->n_in_minute));
        at->time = minute;
        for (uint32_t i = 0; i < h->n_series; i++)
            at->values[i] = NAN;
    }
    for (uint32_t i = 0; i < h->n_series; i++) {
        if (isnan(values[i]))
            continue;
        uint32_t n = ++h->n_in_minute[i];
        at->values[i] = n == 1 ? values[i] : at->values[i] + (values[i] - at->values[i]) / (float)n;
    }
}

static uint64_t latest(const struct sample *ring, uint32_t n)
{
    uint64_t time = 0;

    for (uint32_t i = 0; i < n; i++)
        time = ring[i].time > time ? ring[i].time : time;
    return time;
}

void history_add(struct history *h, uint64_t seconds, const float values[static HISTORY_SERIES])
{
    struct sample *at = &h->seconds[seconds % HISTORY_SECONDS];
    bool again = at->time == seconds;

    if (seconds < latest(h->seconds, HISTORY_SECONDS))
        return;
    put(at, seconds, values, h->n_series);
    if (!again)
        add_to_minute(h, seconds / 60, values);
}

void history_each(const struct history *h, enum history_span span,
                  void (*each)(uint64_t time, const float *values, void *context), void *context)
{
    const struct sample *ring = span == HISTORY_HOUR ? h->seconds : h->minutes;
    uint32_t n = span == HISTORY_HOUR ? HISTORY_SECONDS : HISTORY_MINUTES, step = span == HISTORY_HOUR ? 1 : 60;
    uint64_t last = latest(ring, n);

    for (uint64_t time = last >= n ? last - n + 1 : 1; last && time <= last; time++) {
        const struct sample *at = &ring[time % n];

        if (at->time == time)
            each(time * step, at->values, context);
    }
}
