/* SPDX-License-Identifier: Apache-2.0
 *
 * recall.h: what was handed ahead is taken back where somebody else's turn has come. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct domain;
struct event;
struct job;
struct list;
struct user;

/* Of a domain: what its executor was handed since the last time that it had nothing. */
struct recall {
    struct event *timer;
    struct user *user; /* whose jobs they were */
    int8_t priority;
    bool mixed; /* not his alone, or not at this priority */
};

/* 0 or a negative errno. */
int recall_init(struct domain *d);
void recall_deinit(struct domain *d);
/* What was handed over behind this link of d->handed (which may be the list itself), and has not begun, goes back to
 * the queue: so many jobs. */
uint32_t recall_behind(struct domain *d, const struct list *behind);
/* the other has less than it could run, and waits for a run slot */
void recall_waits(struct domain *d, const struct domain *other);
void recall_came(struct domain *d, const struct job *job); /* into the queue, from outside */
void recall_handed(struct domain *d, const struct job *job);
