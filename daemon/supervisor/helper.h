/* SPDX-License-Identifier: Apache-2.0
 *
 * helper.h: wsd's end of wsd-spawn, which starts executors under the uids of users. Everything here is [loop].
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/child.h"

struct helper_options {
    struct event_base *base;
    const char *file;  /* wsd-spawn */
    uint32_t first_id; /* no user or group below it */
    const struct child_program *program; /* lives as long as the helper */
    /* It is gone, with all its children, and wsd has no right to start another one. */
    void (*lost)(void *context);
    void *context;
};

/* Whether wsd has the right: to be another user, to have other groups, to kill what then runs. */
bool helper_allowed(void);
/* Starts wsd-spawn; a wsd that is not root's has no right left after. 0 or a negative errno. */
int helper_new(struct helper **ret_helper, const struct helper_options *options);
/* What it has started ends with it. NULL is fine; returns NULL. */
struct helper *helper_free(struct helper *h);
uint32_t helper_first_id(const struct helper *h);

/* --- for child.c --------------------------------------------------------------------------------------------------- */

int helper_start(struct helper *h, struct child *c, const struct child_options *options);
void helper_kill(struct child *c);
void helper_child_ended(struct child *c); /* its pidfd says so */
