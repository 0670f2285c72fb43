/* SPDX-License-Identifier: Apache-2.0
 *
 * opens.c: requests to open a file, between the tasks that wait and the control socket.
 * Owns the list and the descriptors of answers that were not fetched yet. Under one lock, held for moments.
 * Keeps: each answer reaches the task that asked, or is closed; an errno from outside is an errno.
 * Does not send, and does not wait: its users do. */
#include "executor/opens.h"

#include <errno.h>

#include "base/cleanup.h"
#include "ring/layout.h"

#define ERRNO_MAX 4095u

void opens_init(struct opens *o)
{
    pthread_mutex_init(&o->lock, NULL);
    list_init(&o->waiting);
    o->last_serial = 0;
}

void opens_begin(struct opens *o, struct open_wait *w, uint32_t slot, uint32_t generation)
{
    *w = (struct open_wait){.slot = slot, .generation = generation, .result = -ECANCELED};
    pthread_mutex_lock(&o->lock);
    do
        w->serial = ++o->last_serial;
    while (w->serial == RING_NONE);
    list_push_back(&o->waiting, &w->link);
    pthread_mutex_unlock(&o->lock);
}

bool opens_answered(struct opens *o, struct open_wait *w)
{
    pthread_mutex_lock(&o->lock);
    bool answered = w->answered;
    pthread_mutex_unlock(&o->lock);
    return answered;
}

int opens_end(struct opens *o, struct open_wait *w)
{
    pthread_mutex_lock(&o->lock);
    list_remove(&w->link);
    int result = w->result;
    pthread_mutex_unlock(&o->lock);
    return result;
}

void opens_answer(struct opens *o, uint32_t slot, uint32_t generation, uint32_t serial, uint32_t error, int fd)
{
    _cleanup_(close_fdp) int mine = fd;

    if (error > ERRNO_MAX || (error == 0 && fd < 0))
        error = EIO;
    pthread_mutex_lock(&o->lock);
    list_for_each_entry (struct open_wait, w, &o->waiting, link) {
        if (w->answered || w->slot != slot || w->generation != generation ||
            (serial != RING_NONE && w->serial != serial))
            continue;
        w->answered = true;
        w->result = error ? -(int)error : TAKE_FD(mine);
        if (serial != RING_NONE)
            break;
        if (error == 0)
            break; /* one descriptor answers one request */
    }
    pthread_mutex_unlock(&o->lock);
}
