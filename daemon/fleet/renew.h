/* SPDX-License-Identifier: Apache-2.0
 *
 * renew.h: consumers that do not fit their stream are taken away, so that they are made anew. Everything here is
 * [loop].
 *
 * A server that was killed may have forgotten what its stream had, and not what its consumers have handed out: nats-server
 * 2.9 does so where its disk was full. The stream then numbers its jobs from 1 on, and the consumer hands out none before
 * the last number that it remembers. It may also keep jobs that were acknowledged. Both are jobs of the consumer with
 * numbers that it has handed out, while it holds none. A consumer that is made anew hands them out. Those that had ended
 * are found by their marks and ends, or run twice where they may.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fleet/bus.h"
#include "fleet/letter.h"

enum renewal {
    RENEW_RIGHT, /* it fits, as far as is known */
    RENEW_AGAIN, /* it is to be looked at again, some seconds later: it may not fit, or no server has answered */
    RENEW_GONE,  /* it is taken away: make it */
};

/* Embedded, with bus, consumer, context and told set. */
struct renew {
    struct bus *bus;
    const char *consumer; /* of WSD_JOBS */
    void *context;
    void (*told)(void *context, enum renewal what);
    struct bus_question question;
    char subjects[LETTER_SUBJECT]; /* of its jobs */
    bool is_idle;
    uint64_t delivered; /* what it has handed out, up to this number */
    uint64_t left;      /* a job at or below that, at the look before; 0: there was none */
};

/* The number of the last message that the consumer has handed out is `delivered`; 0: none. If `is_idle`, it holds none,
 * and has none to hand out. Calls told(), now or later. */
void renew_look(struct renew *r, const char *subjects, uint64_t delivered, bool is_idle);
bool renew_looks(const struct renew *r); /* told() is to come */
void renew_reset(struct renew *r);       /* ends it; the next look begins anew */
