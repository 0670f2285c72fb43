/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.h: jobs that the server takes for held, and that are gone. Everything here is [loop].
 *
 * A server that was killed may have removed a job, and not know that it was acknowledged: nats-server 2.9 does so. It
 * then hands the job out for ever, finds no message, and gives its consumer nothing in that turn. Where there are some
 * hundreds, jobs that wait are given to no node any more. Such jobs are found by their numbers, and acknowledged.
 */
#pragma once

#include <stdint.h>

#include "fleet/bus.h"

#define SWEEP_MAX 65536u /* numbers that are asked for, from the oldest one on that is held */

/* Embedded, with bus and consumer set. */
struct sweep {
    struct bus *bus;
    const char *consumer; /* of WSD_JOBS */
    struct bus_question question;
    uint64_t at, to; /* numbers of messages that may be gone; to 0: none is suspected */
};

/* What the server says of its consumer. */
struct sweep_look {
    uint64_t floor, delivered; /* numbers of messages: all up to here are acknowledged; were handed out */
    uint64_t held, redelivered;
};

/* To be called again and again, some seconds apart, while jobs are held. What is held and handed out again at one look,
 * and neither acknowledged nor newer at the next one, is asked for. */
void sweep_look(struct sweep *s, const struct sweep_look *look);
void sweep_reset(struct sweep *s); /* ends it; the next look begins anew */
