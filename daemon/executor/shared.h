/* SPDX-License-Identifier: Apache-2.0
 *
 * shared.h: what the jobs and direct calls of an executor share: its end of the ring, the control socket, what came by
 * that, and the plugins by wsd's numbers.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "executor/arenas.h"
#include "executor/inputs.h"
#include "executor/opens.h"
#include "host/plugin.h"
#include "ring/back.h"

#define SHARED_PLUGINS 4096u /* numbers that wsd may give */

struct shared {
    struct back back;
    int control_fd;                /* [const after init] */
    struct inputs inputs, outputs; /* descriptors of both */
    struct opens opens;
    struct arena_table arenas;
    _Atomic(struct host_plugin *)
        plugins[SHARED_PLUGINS]; /* [atomic: release by the control thread, acquire by workers] */
};

/* It must be zeroed. The ring's end is made by back_init(). [main, before threads] */
void shared_init(struct shared *shared, int control_fd);

/* Something that jobs may wait for has come. Wakes slot_wait(). [control thread] */
void shared_notify(struct shared *shared);

/* number: below SHARED_PLUGINS. The plugin stays for good. [control thread] */
void shared_add_plugin(struct shared *shared, uint32_t number, struct host_plugin *p);
/* The function of a plugin's number << 32 | index; NULL: there is none. [worker] */
const struct plugin_function *shared_function(struct shared *shared, uint64_t target);
