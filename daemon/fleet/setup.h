/* SPDX-License-Identifier: Apache-2.0
 *
 * setup.h: the streams of a fleet: makes them, and says how they are. Blocks; for `wsctl fleet`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fleet/login.h"

struct setup_options {
    const struct login *login;
    uint32_t replicas;  /* 1, 3 or 5 servers keep each message */
    uint64_t jobs_max;  /* that wait or run, of all nodes; more are refused */
    uint64_t kept_usec; /* how long ends, marks and keys are there: LETTER_KEPT_USEC to LETTER_KEPT_MOST */
    bool json;
};

/* Both print to stdout, or a reason to stderr, and return an exit status of wsctl. */
int setup_init(const struct setup_options *options);
int setup_status(const struct setup_options *options);
