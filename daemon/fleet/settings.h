/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h: what wsd-fleet is told: [fleet] of wsd.conf, then the command line.
 */
#pragma once

#include <stdbool.h>

#include "configuration/configuration.h"
#include "fleet/letter.h"
#include "fleet/login.h"
#include "fleet/setup.h"

struct settings {
    struct config config; /* owns the texts of [fleet] */
    const char *socket;   /* of wsd; NULL: as for wsctl */
    char node[LETTER_NAME];
    struct login login;
    struct setup_options setup;
    bool init, status; /* do only that */
};

/* Reads both. Returns -1, or an exit status with which to end at once; the words are said then. */
int settings_load(struct settings *s, int argc, char **argv);
void settings_deinit(struct settings *s);
