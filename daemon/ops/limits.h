/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.h: limits that an administrator changes while wsd runs. [loop]
 */
#pragma once

#include "configuration/configuration.h"

#define MOVED_MAX 1024u /* limits that may be moved at a time, of all users together */

/* The moved limits. Zeroed: none. */
struct limits {
    const struct config *config; /* owned by the caller; its values hold for limits that are not moved */
    struct jobs *jobs;
    struct frontend *frontend;
    struct list moved;
    uint32_t n_moved;
};

void limits_init(struct limits *l, const struct config *config, struct jobs *jobs, struct frontend *frontend);
/* Forgets all moves, and applies the configuration. */
void limits_reset(struct limits *l);
void limits_deinit(struct limits *l);
/* frontend_limits_ops; userdata is the struct limits. */
extern const struct frontend_limits_ops limits_ops;
