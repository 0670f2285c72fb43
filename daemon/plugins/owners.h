/* SPDX-License-Identifier: Apache-2.0
 *
 * owners.h: the names of users and groups. Embedded; zeroed it is empty. All calls [one task at a time].
 */
#pragma once

#include <sys/types.h>

struct owners {
    void *users, *groups; /* trees of those that were asked for */
};

/* The name, valid as long as owners is; "" where there is none. 0, or a negative errno where memory or descriptors are
 * out. The first call for an id may block. */
int owners_user(struct owners *owners, uid_t uid, const char **ret_name);
int owners_group(struct owners *owners, gid_t gid, const char **ret_name);

void owners_deinit(struct owners *owners);
