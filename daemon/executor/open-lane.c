/* SPDX-License-Identifier: Apache-2.0
 *
 * open-lane.c: one direct lane of an executor while it is open.
 * Owns its mappings and the memory of its calls. They last from lane_init() until the last use is over. [each function
 * says where]
 * Keeps: a lane's memory stays mapped while any thread uses it. A worker looks at one lane at most, and uses it while
 * it looks.
 * Does not decide when lanes are opened and shut (lanes.c), or run calls (direct-call.c). */
#include "executor/open-lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "executor/worker-hints.h"

/* The lane of the last call that this worker ran. Counts as a user of the lane. */
static _Thread_local struct lane *looks_at;

int lane_init(struct lane *l, struct shared *shared, const struct control *c, int memory_fd, int grant_fd)
{
    l->number = c->number;
    l->shared = shared;
    l->up = &shared->back.up->lanes[c->number];
    l->same_user = c->flags & DOWN_SAME_USER;
    atomic_store_explicit(&l->alarms, 0, memory_order_relaxed);
    l->directory = c->text_size > 1 ? strdup(c->text) : NULL;
    l->calls = calloc(LANE_SLOTS, sizeof(*l->calls)); /* zero pages until they are used */
    int r = l->calls && (l->directory || c->text_size <= 1) ? lane_back_init(&l->back, memory_fd, grant_fd) : -ENOMEM;
    if (r < 0) {
        free(l->calls);
        free(l->directory);
        l->calls = NULL;
        l->directory = NULL;
        return r;
    }
    l->notify_fd = -1;
    atomic_store_explicit(&l->taken, true, memory_order_relaxed);
    /* release: partner is the acquire in lane_ref() */
    atomic_store_explicit(&l->users, 1, memory_order_release);
    return 0;
}

int lane_tell(struct shared *shared, uint32_t number, uint32_t bind, int error)
{
    struct control c = {.kind = CONTROL_LANED, .number = number, .functions = bind, .error = (uint32_t)error};

    return control_send(shared->control_fd, &c, -1);
}

bool lane_notify(struct lane *l)
{
    if (l->notify_fd < 0 || !lane_back_notifies(&l->back))
        return false;
    /* full: its client does not read, and has enough to wake up for */
    (void)send(l->notify_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return true;
}

void lane_take_down(struct lane *l)
{
    struct shared *shared = l->shared;
    uint32_t number = l->number;

    for (uint32_t i = 0; l->calls && i < LANE_SLOTS; i++)
        if (l->calls[i].initialised)
            host_job_deinit(&l->calls[i].job);
    free(l->calls);
    l->calls = NULL;
    free(l->directory);
    l->directory = NULL;
    lane_back_deinit(&l->back);
    l->notify_fd = close_fd(l->notify_fd);
    /* release: partner is the acquire in open_lane(); nothing of it is touched after */
    atomic_store_explicit(&l->taken, false, memory_order_release);
    lane_tell(shared, number, LANED_CLOSED, 0);
}

void lane_look_away(void)
{
    struct lane *l = TAKE(looks_at);

    if (!l)
        return;
    lane_back_look(&l->back, false);
    lane_unref(l);
}

void lane_look_at(struct lane *l)
{
    if (looks_at == l) {
        lane_unref(l);
        return;
    }
    lane_look_away();
    lane_back_look(&l->back, true);
    looks_at = l;
}

bool lane_is_looked_at(const struct lane *l)
{
    return looks_at == l;
}

bool lane_is_cared_for(struct lane *l)
{
    if (looks_at != l)
        return lane_back_cared_for(&l->back);
    if (!lane_back_yield(&l->back))
        return false;
    looks_at = NULL;
    hints_no_spin();
    lane_unref(l); /* the caller still has a use of it */
    return true;
}
