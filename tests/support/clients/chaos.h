/* SPDX-License-Identifier: Apache-2.0
 *
 * chaos.h: what chaos.c and its two manners share: the connections, the dice, and what a manner has to do.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/codec.h"
#include "proto/frame.h"

#define OUT_MAX (4 * FRAME_MAX)

struct conn {
    int fd;
    bool deaf;   /* it does not read */
    bool unruly; /* it broke a rule: wsd may close it */
    uint8_t in[2 * FRAME_MAX], out[OUT_MAX];
    size_t in_size, out_size;
    void *state; /* the manner's, zero when the connection begins */
};

struct manner {
    size_t state_size;
    void (*begin)(struct conn *c); /* it is connected, and nothing is said */
    void (*turn)(struct conn *c);  /* says something, or sends some of it */
    void (*check)(struct conn *c, const struct frame *f, const struct msg *m); /* fails at a frame that is not right */
    void (*print)(void);                                                       /* the line of counts */
};

/* Valid frames in any order: of these plugins, each PLUGIN[:FUNCTION[=ARGUMENT]]. */
extern const struct manner valid;
extern char **plugins;
extern int n_plugins;

/* Noise: random bytes, and frames that were damaged. */
extern const struct manner noise;

/* A random number below n. */
uint64_t dice(uint64_t n);

/* Says why, and exits 1. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

/* Hangs up, and begins anew. */
void again(struct conn *c);

/* The first n bytes of c->out are sent. */
void sent(struct conn *c, size_t n);
