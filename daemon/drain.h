/* SPDX-License-Identifier: Apache-2.0
 *
 * drain.h: the orderly end. [loop]
 */
#pragma once

#include "daemon.h"

void on_drain(void *daemon); /* new jobs are refused, the others end */
void on_end(void *daemon);   /* what still runs is interrupted */
/* The drain has taken too long; later, a tick while waiting for the end. */
void on_drain_over(evutil_socket_t fd, short what, void *daemon);
bool finished(struct daemon *d);
/* Executors end in order, so that plugins can say goodbye; those that do not are killed. */
void finish_executors(struct daemon *d);
void leave_clients(struct daemon *d); /* they stay connected: the next wsd goes on with them */
