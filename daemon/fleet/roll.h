/* SPDX-License-Identifier: Apache-2.0
 *
 * roll.h: which machines there are: each answers all that ask. [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bus;
struct in;
struct out;

/* A process that asks publishes here, and hears the answers under this subject and a dot, at the reply subject of the
 * question. */
#define ROLL_SUBJECT "wsd.roll"
#define ROLL_NAMES   32u /* of the plugins that a machine names; it gives the number of all */

/* What an answer says of this node. Owned by the caller. */
struct roll {
    struct bus *bus;
    const char *node;
    const struct in *in;   /* NULL: takes no jobs */
    const struct out *out; /* NULL: hands none out */
    uint32_t held_most;
    bool leaving; /* takes no more jobs */
};

int roll_open(struct roll *r); /* from now on, as long as the bus lives. 0 or a negative errno */
