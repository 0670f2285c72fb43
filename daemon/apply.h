/* SPDX-License-Identifier: Apache-2.0
 *
 * apply.h: the configuration, as the parts are told of it. [loop]
 */
#pragma once

#include "daemon.h"

/* now: the present number; 0: none yet. It stays where the right number cannot be found. */
uint32_t workers_of(const struct config *c, uint32_t now);
/* The rules belong to the configuration, which a reload replaces in the same place. */
void apply_rules(struct daemon *d);
/* Sets the gates that sections configure, or (off) removes those that a section had set. */
void apply_gates(struct daemon *d, const struct config *c, bool off);
void apply_schedules(struct daemon *d, const struct config *c);
/* Reads the files for clients of other machines. Returns 0; *ret is NULL where there are to be none. */
int load_remote(const struct config *c, struct remote **ret, char error[REMOTE_ERROR]);
struct jobs_options options_of(struct daemon *d);
