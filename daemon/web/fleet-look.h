/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet-look.h: how the fleet is, as `wsd-fleet --status` tells. [thread of the collector] */
#pragma once

#include <jansson.h>

struct fleet_look;

struct fleet_look_options {
    const char *program; /* wsd-fleet. Lives as long as the look, as do the servers */
    const char *servers; /* NULL: those of [fleet] in wsd.conf(5) */
};

/* Returns 0 or -ENOMEM. */
int fleet_look_new(struct fleet_look **ret, const struct fleet_look_options *options);
/* Ends the program that is still asked. NULL is fine. Returns NULL. */
struct fleet_look *fleet_look_free(struct fleet_look *f);
/* What was told last: what `wsd-fleet --status --json` prints, or {"error": WORDS}. NULL: nothing yet. Asks again where
 * that is old, and never waits: the answer comes with a later look. The caller owns a reference. */
json_t *fleet_look_now(struct fleet_look *f);
