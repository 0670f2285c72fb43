/* SPDX-License-Identifier: Apache-2.0
 *
 * health.h: the health check of an executor that has work. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HEALTH_LOOKS 2u /* in the time after which an executor hangs */

struct domain;
struct event;

/* Of a domain's executor. */
struct health {
    struct event *timer; /* while there is work */
    bool armed, asked;
    uint64_t usec;    /* when it was started, or asked */
    uint32_t n_quiet; /* looks in a row at which none of its jobs had been begun */
    char why[64];     /* wsd killed it, where there is more to say */
};

/* 0 or a negative errno. */
int health_init(struct domain *d);
void health_deinit(struct domain *d);
void health_started(struct domain *d); /* an executor was */
void health_busy(struct domain *d);    /* something was handed to it */
void health_idle(struct domain *d);    /* it has no work any more */
void health_heard(struct domain *d);   /* it has answered */
