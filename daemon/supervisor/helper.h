/* SPDX-License-Identifier: Apache-2.0
 *
 * helper.h: wsd's end of wsd-spawn, which starts executors under the uids of users. Root's wsd starts it; any other one
 * finds it at a socket, where the service manager starts it. Everything here is [loop].
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/child.h"

struct helper_options {
    struct event_base *base;
    const char *file;  /* wsd-spawn, or the socket of wsd-spawn.service */
    uint32_t first_id; /* no user or group below it */
    /* An executor that does not get ready for so long is given up. What starts it has half of that to answer; may
     * change. */
    const uint64_t *answer_usec;
    const struct child_program *program; /* lives as long as the helper */
};

/* Whether there is such a socket, or wsd is root's and has the right: to be another user, to have other groups, to kill
 * what then runs. */
bool helper_possible(const char *file);
/* Becomes wsd-spawn, which is `file`, on a socket that listens, with a cgroup to make those of executors in, or -1.
 * Returns only where that cannot be: a negative errno. [before there is a loop] */
int helper_become(const struct helper_options *options, int socket, int cgroups_fd);
/* Starts wsd-spawn, or connects to it. 0 or a negative errno. */
int helper_new(struct helper **ret_helper, const struct helper_options *options);
/* What it has started ends with it. NULL is fine; returns NULL. */
struct helper *helper_free(struct helper *h);
uint32_t helper_first_id(const struct helper *h);

/* --- for child.c -------------------------------------------------------------------------------------------------- */

int helper_start(struct helper *h, struct child *c, const struct child_options *options);
void helper_kill(struct child *c);
void helper_child_ended(struct child *c); /* its pidfd says so */
