/* SPDX-License-Identifier: Apache-2.0
 *
 * owners.c: the names of users and groups, each looked up once.
 * Owns the names. A database that does not answer gives no name, as in tar. What this process lacks is told apart from
 * that. */
#include "plugins/owners.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ROOM_FIRST 1024u
#define ROOM_MAX   (1024u * 1024) /* for an entry: a group may have many members */

struct owner {
    id_t id;
    char *name;
};

/* An errno, or 0 with *ret_name NULL where there is no such id. *ret_name lies in room. */
typedef int look_up(id_t id, char *room, size_t size, const char **ret_name);

static int look_up_user(id_t id, char *room, size_t size, const char **ret_name)
{
    struct passwd entry, *found = NULL;
    int r = getpwuid_r(id, &entry, room, size, &found);

    *ret_name = found ? found->pw_name : NULL;
    return r;
}

static int look_up_group(id_t id, char *room, size_t size, const char **ret_name)
{
    struct group entry, *found = NULL;
    int r = getgrgid_r(id, &entry, room, size, &found);

    *ret_name = found ? found->gr_name : NULL;
    return r;
}

/* The same failure would not come again; else there is no name. */
static bool is_failure(int error)
{
    return error == ENOMEM || error == EMFILE || error == ENFILE || error == EINTR;
}

static int find_name(look_up *look, id_t id, char **ret_name)
{
    _cleanup_(freep) char *room = NULL;
    const char *name = NULL;
    int r = ERANGE;

    for (size_t size = ROOM_FIRST; r == ERANGE && size <= ROOM_MAX; size *= 2) {
        free(room);
        room = malloc(size);
        r = room ? look(id, room, size, &name) : ENOMEM;
    }
    if (is_failure(r))
        return -r;
    *ret_name = strdup(!r && name ? name : "");
    return *ret_name ? 0 : -ENOMEM;
}

static int compare(const void *a, const void *b)
{
    id_t x = ((const struct owner *)a)->id, y = ((const struct owner *)b)->id;

    return (x > y) - (x < y);
}

static void owner_free(void *object)
{
    struct owner *owner = object;

    if (owner)
        free(owner->name);
    free(owner);
}

static int add_owner(void **tree, look_up *look, id_t id, const char **ret_name)
{
    struct owner *owner = calloc(1, sizeof(*owner));
    int r = -ENOMEM;

    if (owner) {
        owner->id = id;
        r = find_name(look, id, &owner->name);
    }
    if (!r && !tsearch(owner, tree, compare))
        r = -ENOMEM;
    if (r)
        owner_free(owner);
    else
        *ret_name = owner->name;
    return r;
}

static int name_of(void **tree, look_up *look, id_t id, const char **ret_name)
{
    struct owner **found = tfind(&(struct owner){.id = id}, tree, compare);

    if (!found)
        return add_owner(tree, look, id, ret_name);
    *ret_name = (*found)->name;
    return 0;
}

int owners_user(struct owners *owners, uid_t uid, const char **ret_name)
{
    return name_of(&owners->users, look_up_user, uid, ret_name);
}

int owners_group(struct owners *owners, gid_t gid, const char **ret_name)
{
    return name_of(&owners->groups, look_up_group, gid, ret_name);
}

void owners_deinit(struct owners *owners)
{
    tdestroy(owners->users, owner_free);
    tdestroy(owners->groups, owner_free);
    *owners = (struct owners){.users = NULL};
}
