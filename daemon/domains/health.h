/* SPDX-License-Identifier: Apache-2.0
 *
 * health.h: the health check of an executor that has work. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define HEALTH_LOOKS 2u /* checks within the time after which an executor counts as hanging */

struct domain;
struct event;

/* The health of a domain's executor. */
struct health {
    struct event *timer; /* armed while the executor has work */
    bool armed, asked;
    uint64_t usec;    /* when the executor was started or asked */
    uint32_t n_quiet; /* successive checks at which none of its jobs had begun */
    char why[64];     /* why wsd killed it, where there are details; or "" */
};

/* 0 or a negative errno. */
int health_init(struct domain *d);
void health_deinit(struct domain *d);
void health_started(struct domain *d); /* an executor was started */
void health_busy(struct domain *d);    /* something was handed to it */
void health_idle(struct domain *d);    /* the executor has no work now */
void health_heard(struct domain *d);   /* the executor has answered */
