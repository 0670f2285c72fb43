/* SPDX-License-Identifier: Apache-2.0
 *
 * timers.c: timers for which there may be no memory.
 * Owns nothing. [loop]
 * Keeps: a timer that could not be set is set later, by jobs_poll(). */
#include "table/timers.h"

#include "base/log.h"
#include "table/job.h"

void jobs_timer(struct jobs *jobs, struct event *timer, uint64_t usec)
{
    struct timeval t = {.tv_sec = (time_t)(usec / 1000000), .tv_usec = (suseconds_t)(usec % 1000000)};

    if (timer && evtimer_add(timer, &t) == 0)
        return;
    if (!jobs->untimed && !jobs->was_untimed)
        log_error("no memory for a timer: a time limit will be kept late");
    jobs->untimed = true;
}
