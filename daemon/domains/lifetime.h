/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.h: when a domain's executor is started, and when it is ended. [loop]
 */
#pragma once

#include "domains/domain.h"

#define DOMAIN_PAUSE_USEC 10000u /* the first pause before another start, or another try to hand a job over */

int lifetime_init(struct domain *d); /* 0 or -ENOMEM */
void lifetime_deinit(struct domain *d);
/* Starts an executor if none runs and no pause is on. Returns 0: there is one, or will be; -EAGAIN: none can be had. */
int domain_start(struct domain *d);
/* Once a turn, while d->priv->given_up: ends some of the jobs that were queued when no executor could be had. */
void domain_end_given_up(struct domain *d);
void domain_start_executor(struct domain *d); /* at once; d->priv->executor stays NULL on failure */
void domain_start_failed(struct domain *d, const char *why);
void domain_fruitless(struct domain *d, const struct executor *e); /* the executor died before it was `useful` */
bool domain_ready(const struct domain *d);                         /* its executor has started */
const char *domain_failure(const struct domain *d);                /* why none can be started */
void domain_finish(struct domain *d); /* tells the executor to end; kills it if it does not */
/* Starts the idle time if the executor has no work. Checked from time to time while there is an executor, from its
 * readiness on: it may have been started for a query only, or its job may have been cancelled. */
void domain_rest(struct domain *d);
/* The same after the last job has ended. Called before wsd sleeps, since by then a client may have sent the next job,
 * so that no timer has to be moved. */
void domain_settle(struct domain *d);
void domain_rearm(struct domain *d);  /* see timers.h */
bool domain_wanted(struct domain *d); /* something waits for its executor */
