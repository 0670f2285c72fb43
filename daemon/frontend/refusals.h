/* SPDX-License-Identifier: Apache-2.0
 *
 * refusals.h: bounds how fast a connection is refused requests. [loop]
 */
#pragma once

#include <event2/event.h>

#include "base/list.h"

struct frontend;
struct peer;

struct refusals {
    struct list paused;  /* connections that had too many lately: nothing is read from them for a moment */
    struct event *timer; /* until those are looked at */
};

int refusals_init(struct frontend *f); /* 0 or -ENOMEM */
void refusals_deinit(struct frontend *f);
/* After each read of the connection: whether it pauses. */
void refusals_count(struct peer *p);
