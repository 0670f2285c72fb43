/* SPDX-License-Identifier: Apache-2.0
 *
 * blocks.c: blocks of whole lines.
 * Owns the beginning of a line between two blocks. An input in memory is not copied.
 * Keeps: each byte is looked at once for a newline, however long its line is. Does not look for lines within a block. */
#include "plugins/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/lines.h"

/* Of the input where it lies. */
static void take_lines(struct source *source, struct block *block)
{
    block->data = (const char *)source->data;
    block->size = lines_cut(block->data, source->size, BLOCK_SIZE);
    source->data += block->size;
    source->size -= block->size;
}

/* Leaves in `own` what ends with a newline, and the rest for the next block. */
static int keep_rest(struct block_reader *reader, struct buffer *own, const char *newline)
{
    size_t whole = (size_t)(newline - own->data) + 1;
    int r = buffer_add(&reader->rest, own->data + whole, own->size - whole);

    own->size = whole;
    return r;
}

static int read_lines(struct block_reader *reader, struct buffer *own)
{
    own->size = 0;
    if (buffer_add(own, reader->rest.data, reader->rest.size))
        return -ENOMEM;
    reader->rest.size = 0;
    while (!reader->ended) {
        char *room = buffer_room(own, BLOCK_SIZE);
        int64_t n = room ? source_read(&reader->source, room, BLOCK_SIZE) : -ENOMEM;

        if (n < 0)
            return (int)n;
        own->size += (size_t)n;
        reader->ended = n < BLOCK_SIZE;

        const char *newline = reader->ended ? NULL : memrchr(room, '\n', (size_t)n);

        if (newline)
            return keep_rest(reader, own, newline);
    }
    return 0;
}

int block_read(struct block_reader *reader, struct block *ret_block)
{
    int r;

    if (wsd_job_cancelled(reader->source.job))
        return -ECANCELED;
    if (reader->source.fd < 0 && reader->source.data) {
        take_lines(&reader->source, ret_block);
        return 0;
    }
    r = read_lines(reader, &ret_block->own);
    if (r)
        return r;
    ret_block->data = ret_block->own.data;
    ret_block->size = ret_block->own.size;
    return 0;
}

void block_deinit(struct block *block)
{
    buffer_deinit(&block->own);
    *block = (struct block){.data = NULL};
}

void block_reader_deinit(struct block_reader *reader)
{
    source_close(&reader->source);
    buffer_deinit(&reader->rest);
}
