/* SPDX-License-Identifier: Apache-2.0
 *
 * open.h: opens files for wsd: those that the user named in the arguments of a job. One thread a handle.
 */
#pragma once

#include "connection.h"

/* Opens a file for wsd, if one of these arguments (one behind the other, each with its NUL) names it, and queues the
 * answer. */
void open_answer(struct connection *c, struct span args, uint32_t tag, const struct msg_open *open);
/* Opens a regular file or directory for reading, relative to that directory. Blocks on nothing else. Returns a
 * descriptor or a negative errno. [any] */
int open_regular(int directory_fd, const char *path);
