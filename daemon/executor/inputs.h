/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs.h: descriptors of inputs, which come over the control socket, until their jobs take them.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/layout.h"

struct inputs {
    pthread_mutex_t lock;
    struct {
        uint32_t generation; /* of fd */
        uint32_t over;       /* the last generation with a job that is over */
        int fd;              /* -1: none */
    } at[RING_SLOTS];        /* [lock] */
};

void inputs_init(struct inputs *in);

/* Keeps the descriptor for the job, or closes it if the job is over already. Takes it over. [control thread] */
void inputs_put(struct inputs *in, uint32_t slot, uint32_t generation, int fd);

/* Gives the job's descriptor to the caller; -1: it is not there yet. [worker] */
int inputs_take(struct inputs *in, uint32_t slot, uint32_t generation);

/* The job is over, or was recalled: closes its descriptor, whether it has come or still comes. [worker] */
void inputs_drop(struct inputs *in, uint32_t slot, uint32_t generation);
