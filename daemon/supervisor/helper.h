/* SPDX-License-Identifier: Apache-2.0
 *
 * helper.h: wsd's side of wsd-spawn, which starts executors under the uids of users. A wsd of root's starts it. Any
 * other wsd connects to a socket, at which the service manager starts it. Everything here is [loop].
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/child.h"

struct helper_options {
    struct event_base *base;
    const char *file;  /* wsd-spawn, or the socket of wsd-spawn.service */
    uint32_t first_id; /* users and groups below it are refused */
    /* The time in which an executor must get ready. Its starter has half of that to answer. May change. */
    const uint64_t *answer_usec;
    const struct child_program *program; /* lives as long as the helper */
};

/* Whether there is such a socket, or wsd is root's and has the rights: to become another user, to set groups, and to
 * kill the other user's processes. */
bool helper_possible(const char *file);
/* Becomes wsd-spawn, which is `file`, on a listening socket. cgroups_fd: the cgroup for those of executors, or -1.
 * Returns only on failure: a negative errno. [before there is a loop] */
int helper_become(const struct helper_options *options, int socket, int cgroups_fd);
/* Starts wsd-spawn, or connects to it. Returns 0 or a negative errno. */
int helper_new(struct helper **ret_helper, const struct helper_options *options);
/* Ends the helper, and with it what it has started. NULL is fine. Returns NULL. */
struct helper *helper_free(struct helper *h);
uint32_t helper_first_id(const struct helper *h);
/* Starts an executor of another uid; see child_start(). It may still fail later: then `gone` has exit code 127. */
int helper_start(struct helper *h, struct child **ret_child, const struct child_options *options);
