/* SPDX-License-Identifier: Apache-2.0
 *
 * buffer.h: bytes that are put in at one end and taken out at the other. Zero-initialised is empty.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    uint8_t *data;
    size_t start, end, room; /* the bytes are data[start..end) */
};

static inline size_t buffer_size(const struct buffer *b)
{
    return b->end - b->start;
}

static inline const uint8_t *buffer_data(const struct buffer *b)
{
    return b->data + b->start;
}

/* Room for at least size more bytes, or NULL; valid until the next call. */
static inline uint8_t *buffer_reserve(struct buffer *b, size_t size)
{
    if (b->room - b->end >= size)
        return b->data + b->end;
    if (b->start > 0 && b->start >= buffer_size(b)) { /* at most as much is moved as was taken out before */
        memmove(b->data, b->data + b->start, buffer_size(b));
        b->end -= b->start;
        b->start = 0;
        if (b->room - b->end >= size)
            return b->data + b->end;
    }
    size_t room = b->room ? b->room : 1024;
    while (room - b->end < size)
        room *= 2;
    uint8_t *data = (uint8_t *)realloc(b->data, room);
    if (!data)
        return NULL;
    b->data = data;
    b->room = room;
    return data + b->end;
}

static inline void buffer_commit(struct buffer *b, size_t size)
{
    b->end += size;
}

/* 0, or -1 where there is no memory. */
static inline int buffer_put(struct buffer *b, const void *data, size_t size)
{
    uint8_t *p = size ? buffer_reserve(b, size) : NULL;

    if (size && !p)
        return -1;
    if (size)
        memcpy(p, data, size);
    b->end += size;
    return 0;
}

static inline void buffer_drop(struct buffer *b, size_t size)
{
    b->start += size;
    if (b->start == b->end)
        b->start = b->end = 0;
}

/* Gives back room that is not used. */
static inline void buffer_trim(struct buffer *b)
{
    uint8_t *data = b->end ? (uint8_t *)realloc(b->data, b->end) : NULL;

    if (!data)
        return;
    b->data = data;
    b->room = b->end;
}

static inline void buffer_deinit(struct buffer *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}
