/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs.c: descriptors of inputs between the control socket and their jobs.
 * Owns each descriptor from its arrival until a job takes it. Under one lock, held for moments. [control thread,
 * workers]
 * Keeps: at most one descriptor a slot; one that belongs to no job is closed.
 * Does not look at what a descriptor is. */
#include "executor/inputs.h"

#include "base/cleanup.h"

void inputs_init(struct inputs *in)
{
    pthread_mutex_init(&in->lock, NULL);
    for (uint32_t i = 0; i < RING_SLOTS; i++)
        in->at[i].fd = -1;
}

void inputs_put(struct inputs *in, uint32_t slot, uint32_t generation, int fd)
{
    _cleanup_(close_fdp) int unwanted = fd;

    if (slot >= RING_SLOTS)
        return;
    pthread_mutex_lock(&in->lock);
    if (in->at[slot].over != generation) {
        unwanted = in->at[slot].fd;
        in->at[slot].fd = fd;
        in->at[slot].generation = generation;
    }
    pthread_mutex_unlock(&in->lock);
}

int inputs_take(struct inputs *in, uint32_t slot, uint32_t generation)
{
    int fd = -1;

    pthread_mutex_lock(&in->lock);
    if (in->at[slot].fd >= 0 && in->at[slot].generation == generation)
        fd = TAKE_FD(in->at[slot].fd);
    pthread_mutex_unlock(&in->lock);
    return fd;
}

void inputs_drop(struct inputs *in, uint32_t slot, uint32_t generation)
{
    close_fd(inputs_take(in, slot, generation));
    pthread_mutex_lock(&in->lock);
    in->at[slot].over = generation;
    pthread_mutex_unlock(&in->lock);
}
