/* SPDX-License-Identifier: Apache-2.0
 *
 * failure.h: the words and the exit code of the last failure of a handle. One thread a handle.
 */
#pragma once

#include <stdint.h>

#include "proto/codec.h"

struct failure {
    char text[512];
    int exit;
    uint64_t retry_usec; /* when to try again, where wsd has refused and says; else 0 */
};

/* Sets both; returns error. The arguments may point into the text that was there before. */
__attribute__((format(printf, 4, 5))) int failure_set(struct failure *f, int error, int exit, const char *format, ...);
/* The same for what codec_problem() said of a request. -EINVAL. */
int failure_problem(struct failure *f, const char *problem);
/* The same for what an ERROR frame said. */
int failure_remote(struct failure *f, const struct msg_error *error);
