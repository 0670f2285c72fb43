/* SPDX-License-Identifier: Apache-2.0
 *
 * accounts.c: asks the user database, and tells "there is none" from "it could not be asked".
 * Owns nothing. [any]
 * Keeps: a failure is never an answer: no memory, no descriptors, or a server that is down make no user unknown, and no
 * list of groups shorter.
 * Does not wait less long than the database takes. */
#include "base/accounts.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define ENTRY_MAX    (1u << 20) /* bytes of an entry */
#define ENTRY_FIRST  4096u
#define GROUPS_FIRST 64
#define GROUPS_LAST  65536 /* of the kernel */

/* getpwnam(3) and getgrnam(3) list what stands for "not found". */
static bool is_absence(int error)
{
    return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM;
}

/* getgrouplist() goes on without the groups that it could not read, and leaves only these in errno. */
static bool is_failure(int error)
{
    static const int failures[] = {ENOMEM, EMFILE, ENFILE, EIO, EAGAIN, ETIMEDOUT};

    for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
        if (error == failures[i])
            return true;
    return false;
}

/* ASK(room, size): one of the reentrant calls; its `found` is NULL if there is no entry. 0 or a negative errno. */
#define LOOK_UP(room, found, ask)                                                                                      \
    ({                                                                                                                 \
        int r_ = ERANGE;                                                                                               \
        for (size_t size = ENTRY_FIRST; r_ == ERANGE && size <= ENTRY_MAX; size *= 2) {                                \
            free(room);                                                                                                \
            room = malloc(size);                                                                                       \
            r_ = room ? (ask) : ENOMEM;                                                                                \
        }                                                                                                              \
        r_ == 0 && (found) ? 0 : is_absence(r_) ? -ENOENT : -r_;                                                       \
    })

static int take_entry(int r, const struct passwd *entry, struct account *ret)
{
    if (r < 0)
        return r;
    if (strlen(entry->pw_name) >= sizeof(ret->name))
        return -ENOENT;
    snprintf(ret->name, sizeof(ret->name), "%s", entry->pw_name);
    ret->uid = entry->pw_uid;
    ret->gid = entry->pw_gid;
    return 0;
}

int account_by_name(const char *name, struct account *ret)
{
    _cleanup_(freep) char *room = NULL;
    struct passwd entry, *found = NULL;
    int r = LOOK_UP(room, found, getpwnam_r(name, &entry, room, size, &found));

    return take_entry(r, &entry, ret);
}

int account_by_uid(uint32_t uid, struct account *ret)
{
    _cleanup_(freep) char *room = NULL;
    struct passwd entry, *found = NULL;
    int r = LOOK_UP(room, found, getpwuid_r(uid, &entry, room, size, &found));

    return take_entry(r, &entry, ret);
}

int group_by_name(const char *name, uint32_t *ret)
{
    _cleanup_(freep) char *room = NULL;
    struct group entry, *found = NULL;
    int r = LOOK_UP(room, found, getgrnam_r(name, &entry, room, size, &found));

    if (r == 0)
        *ret = entry.gr_gid;
    return r;
}

int account_groups(const struct account *u, uint32_t **ret, uint32_t *ret_n)
{
    _cleanup_(freep) gid_t *groups = NULL;
    int room = GROUPS_FIRST, n;

    do {
        free(groups);
        groups = calloc((size_t)room, sizeof(*groups));
        if (!groups)
            return -ENOMEM;
        n = room;
        errno = 0;
        int r = getgrouplist(u->name, u->gid, groups, &n);
        if (is_failure(errno))
            return -errno;
        if (r < 0 && (n <= room || n > GROUPS_LAST))
            return errno > 0 ? -errno : -ENOMEM;
        if (r >= 0)
            break;
        room = n;
    } while (true);
    *ret = TAKE(groups);
    *ret_n = (uint32_t)n;
    return 0;
}
