/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.h: a file or the input as blocks of whole lines, one after the other. Calls of block_read() are [one task at a
 * time]. What is in a block is constant until the block is read into again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "plugins/common.h"

#define BLOCK_SIZE (256u * 1024) /* or one line, where that is longer */

/* {.data = NULL} is an empty one, for any reader. */
struct block {
    const char *data; /* each line but the last of a file ends with a newline */
    size_t size;
    struct buffer own; /* the bytes, where they are not the input as it lies */
};

/* {.source = …} after source_open(). */
struct block_reader {
    struct source source;
    struct buffer rest; /* the beginning of a line that was not read to its end yet */
    bool ended;
};

/* Reads the next lines; size 0 is the end. 0 or a negative errno: -ECANCELED if the job should end. */
int block_read(struct block_reader *reader, struct block *ret_block);

void block_deinit(struct block *block);

/* Closes the source, too. */
void block_reader_deinit(struct block_reader *reader);
