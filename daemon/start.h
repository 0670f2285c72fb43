/* SPDX-License-Identifier: Apache-2.0
 *
 * start.h: builds the parts. [before the loop]
 */
#pragma once

#include "daemon.h"

int start(struct daemon *d); /* 0 or a negative errno, with the words */
/* Runs wsd-spawn on the socket of the service manager, to which a wsd with the same options and configuration connects.
 * These settle what its executors may do, before anything is received. Returns only on failure. */
int become_spawner(struct daemon *d);
