/* SPDX-License-Identifier: Apache-2.0
 *
 * recall.h: takes back jobs that were handed ahead, when another user's or priority's turn comes. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct domain;
struct event;
struct list;
struct user;

/* What a domain's executor was handed since it last had no job. */
struct recall {
    struct event *timer;
    struct user *user; /* the user of those jobs */
    int8_t priority;
    bool mixed; /* they are of several users or priorities */
};

/* 0 or a negative errno. */
int recall_init(struct domain *d);
void recall_deinit(struct domain *d);
/* Takes back to the queue the jobs behind this link of d->handed (which may be the list head) that have not begun.
 * Returns how many. */
uint32_t recall_behind(struct domain *d, const struct list *behind);
