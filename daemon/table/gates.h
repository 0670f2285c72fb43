/* SPDX-License-Identifier: Apache-2.0
 *
 * gates.h: what is asked of gates, and what they show (gate.c). [loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum jobs_gate_action {
    JOBS_GATE_PAUSE = 1,  /* accepts jobs and lets them wait; running ones go on */
    JOBS_GATE_RESUME = 2, /* ends a pause; without a plugin also the drain */
    JOBS_GATE_DRAIN = 3,  /* refuses new jobs; present ones run. Only without a plugin */
    JOBS_GATE_LIMIT = 4,  /* at most `limit` running at once, of all users; 0: any number */
};

#define JOBS_BY_CONFIGURATION UINT32_MAX /* instead of a uid */

struct jobs_gate_request {
    enum jobs_gate_action action;
    uint32_t uid;                  /* for the log */
    const char *plugin, *function; /* plugin "": all jobs; function "": all of the plugin */
    const char *tag;               /* instead of plugin and function; "": none */
    uint32_t limit;
};

struct jobs_gate_info {
    const char *plugin, *function, *tag;
    bool paused, drained;
    uint32_t limit;
    /* running: handed over. waiting: at this gate; with plugin "": all open jobs that are not handed over */
    uint64_t running, waiting;
};
