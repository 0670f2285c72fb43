/* SPDX-License-Identifier: Apache-2.0
 *
 * packet.c: what wsd-spawn lets pass.
 * Owns nothing. [any]
 * Keeps: each field of a packet is looked at before anything is done with it; what is not used has to be zero.
 * Does not look at descriptors: the executor refuses those that are not what they should be. */
#include "spawner/packet.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define ID_NONE UINT32_MAX /* to setresuid(2): as it was */

static bool id_passes(uint32_t id, uint32_t first_id)
{
    return id >= first_id && id != ID_NONE && id != 0;
}

static int check_ids(const struct spawn_request *q, uint32_t first_id)
{
    if (!id_passes(q->uid, first_id) || (!id_passes(q->gid, first_id) && q->gid != SPAWN_NO_GROUP))
        return EPERM;
    for (uint32_t i = 0; i < q->n_groups; i++)
        if (!id_passes(q->groups[i], first_id))
            return EPERM;
    for (uint32_t i = q->n_groups; i < SPAWN_GROUPS_MAX; i++)
        if (q->groups[i])
            return EINVAL;
    return 0;
}

/* A kind and a serial, as KILL and PING are. */
static bool is_short(const struct spawn_request *q)
{
    const struct spawn_request only = {.kind = q->kind, .serial = q->serial};

    return memcmp(q, &only, sizeof(only)) == 0;
}

int spawn_check(const struct spawn_request *q, size_t size, uint32_t n_fds, uint32_t first_id)
{
    if (size != sizeof(*q) || q->serial == 0 || q->kind < SPAWN_START || q->kind > SPAWN_PING)
        return EBADMSG;
    if (q->kind != SPAWN_START)
        return is_short(q) && n_fds == 0 ? 0 : EBADMSG;
    if (q->flags & ~(uint32_t)SPAWN_CGROUP || n_fds != SPAWN_FDS + (q->flags & SPAWN_CGROUP ? 1u : 0u))
        return EINVAL;
    if (q->workers < 1 || q->workers > SPAWN_WORKERS_MAX || q->n_groups > SPAWN_GROUPS_MAX)
        return EINVAL;
    return check_ids(q, first_id);
}
