/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.h: limits that an administrator moves while wsd runs. [loop]
 */
#pragma once

#include "ops/configuration.h"

#define MOVED_MAX 1024u /* moved at the same time, of all users together */

/* Zeroed: none is moved. */
struct limits {
    const struct config *config; /* the caller's: what holds else */
    struct jobs *jobs;
    struct frontend *frontend;
    struct list moved;
    uint32_t n_moved;
};

void limits_init(struct limits *l, const struct config *config, struct jobs *jobs, struct frontend *frontend);
/* Nothing is moved any more; applies what the configuration says. */
void limits_reset(struct limits *l);
void limits_deinit(struct limits *l);
/* frontend_limits_ops; userdata is the struct limits. */
extern const struct frontend_limits_ops limits_ops;
