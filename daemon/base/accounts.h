/* SPDX-License-Identifier: Apache-2.0
 *
 * accounts.h: names and numbers of the user database. [any]
 * A call takes as long as the database, which may be on a remote server. So no call belongs on a loop.
 * Each returns 0; -ENOENT: there is no such user or group; or another negative errno: the database could not be asked,
 * and nothing is known.
 */
#pragma once

#include <stdint.h>

#define ACCOUNT_NAME_MAX 256u /* with the NUL; a longer one is no user's */
/* strerror() of it */
#define ACCOUNTS_SILENT "the user database could not be asked (%s): try again when `getent` answers"

struct account {
    char name[ACCOUNT_NAME_MAX];
    uint32_t uid, gid;
};

int account_by_name(const char *name, struct account *ret);
int account_by_uid(uint32_t uid, struct account *ret);
int group_by_name(const char *name, uint32_t *ret);
/* All groups of the user, including the primary one. The caller frees the array. Never gives an incomplete list. */
int account_groups(const struct account *u, uint32_t **ret, uint32_t *ret_n);
