/* SPDX-License-Identifier: Apache-2.0
 *
 * local-user.h: a user of this machine, with the groups that the user database says.
 */
#pragma once

#include <stdint.h>

#define LOCAL_USER_GROUPS 1024u /* groups that are kept: they only ever permit */

struct local_user {
    uint32_t uid, gid, n_gids;
    uint32_t *gids; /* all groups, including the primary one; the owner frees them */
};

/* Waits for the user database. Returns 0; -ENOENT: there is no such user; -EPERM: it is root; or another negative
 * errno: the database could not be asked. [any] */
int local_user_find(const char *name, struct local_user *ret);
