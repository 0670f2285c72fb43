/* SPDX-License-Identifier: Apache-2.0
 *
 * local-user.c: a user of this machine, for connections with a socket that does not say it.
 * Owns nothing. [any]
 * Keeps: none of them is root.
 * Does not know why a connection is that user's. */
#include "frontend/local-user.h"

#include <errno.h>

#include "base/accounts.h"
#include "base/cleanup.h"

int local_user_find(const char *name, struct local_user *ret)
{
    struct account found;
    uint32_t *gids, n;
    int r = account_by_name(name, &found);

    if (r == 0 && found.uid == 0)
        r = -EPERM;
    if (r == 0)
        r = account_groups(&found, &gids, &n);
    if (r == 0)
        *ret = (struct local_user){found.uid, found.gid, MIN(n, LOCAL_USER_GROUPS), gids};
    return r;
}
