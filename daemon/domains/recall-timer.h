/* SPDX-License-Identifier: Apache-2.0
 *
 * recall-timer.h: when a domain looks for jobs to take back. [loop]
 */
#pragma once

struct domain;
struct job;

/* `other` runs less than it could, and waits for a run slot */
void recall_waits(struct domain *d, const struct domain *other);
void recall_came(struct domain *d, const struct job *job); /* a new job came into the queue */
void recall_handed(struct domain *d, const struct job *job);
