/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h: opens files that a job names, where this process has the submitter's rights, and reads inputs. [any]
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Opens path for reading, relative to directory (NULL: the working directory). A descriptor (close-on-exec), or a
 * negative errno: those of open(2), or -ENXIO for what is neither a regular file nor a directory. Such things are not
 * opened, so nothing blocks and no device notices. O_NONBLOCK may be set on the descriptor. */
int files_open(const char *directory, const char *path);

struct files_input {
    const void *data; /* never NULL after files_read() */
    uint64_t size;
    void *map; /* what to unmap, or NULL */
    size_t map_size;
    void *heap; /* what to free, or NULL */
};

/* Maps or reads everything from where fd stands to its end. 0 or a negative errno. Does not close fd. */
int files_read(int fd, struct files_input *ret);
void files_input_deinit(struct files_input *input);
