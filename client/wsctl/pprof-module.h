/* SPDX-License-Identifier: Apache-2.0
 *
 * pprof-module.h: what wsctl asks of the module that writes profiles for pprof. It is loaded on demand, so that nothing
 * else of wsctl has zlib.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "folded.h"

/* Writes profile.proto, gzipped: samples and nanoseconds of CPU time. usec: how long the profile took. Errors of writing
 * are the stream's. 0 or -ENOMEM. */
int wsctl_pprof_write(const struct folded *f, uint64_t rate, uint64_t usec, FILE *to);
