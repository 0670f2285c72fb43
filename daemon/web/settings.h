/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h: what wsd-web is told on its command line. [before the loop]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "web/fleet-look.h"
#include "web/guard.h"

#define SETTINGS_LISTEN 8u

struct settings {
    struct guard guard;
    const char *socket, *chart;
    bool shows_fleet;
    struct fleet_look_options fleet;
    const char *listen[SETTINGS_LISTEN]; /* ADDRESS:PORT, or the path of a socket */
    uint32_t n_listen;
    const char *history; /* the file that keeps it; NULL: none */
    bool always, browse;
};

/* Returns -1: go on; else an exit status, and what is wrong was said. */
int settings_load(struct settings *s, int argc, char **argv);
