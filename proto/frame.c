/* SPDX-License-Identifier: Apache-2.0
 *
 * frame.c: the fixed header of frame.h.
 * Owns nothing; a parsed frame points into the caller's bytes. [any]
 * Keeps: nothing outside the given bytes is read, no length is believed before it is checked.
 * Does not know types, tags or what the protobuf bytes say. */
#include "proto/frame.h"

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

int frame_parse(const uint8_t *data, size_t size, struct frame *ret_frame, size_t *ret_size)
{
    if (size > 0 && data[0] != FRAME_MAGIC)
        return FRAME_E_MAGIC;
    if (size > 1 && data[1] != FRAME_VERSION)
        return FRAME_E_VERSION;
    if (size >= 12 && get_u32(data + 8) > FRAME_PAYLOAD_MAX)
        return FRAME_E_TOO_LARGE;
    if (size < FRAME_HEADER_SIZE) {
        *ret_size = FRAME_HEADER_SIZE;
        return FRAME_MORE;
    }

    uint32_t header_size = get_u32(data + 8), body_size = get_u32(data + 12);

    if (body_size > FRAME_PAYLOAD_MAX - header_size)
        return FRAME_E_TOO_LARGE;
    *ret_size = FRAME_HEADER_SIZE + (size_t)header_size + body_size;
    if (size < *ret_size)
        return FRAME_MORE;
    *ret_frame = (struct frame){
        .type = (uint16_t)(data[2] | data[3] << 8),
        .tag = get_u32(data + 4),
        .header_size = header_size,
        .body_size = body_size,
        .header = data + FRAME_HEADER_SIZE,
        .body = data + FRAME_HEADER_SIZE + header_size,
    };
    return 0;
}

void frame_put_header(uint8_t ret[FRAME_HEADER_SIZE], uint16_t type, uint32_t tag, uint32_t header_size,
                      uint32_t body_size)
{
    ret[0] = FRAME_MAGIC;
    ret[1] = FRAME_VERSION;
    ret[2] = (uint8_t)type;
    ret[3] = (uint8_t)(type >> 8);
    put_u32(ret + 4, tag);
    put_u32(ret + 8, header_size);
    put_u32(ret + 12, body_size);
}

const char *frame_strerror(int answer)
{
    switch (answer) {
    case 0:
        return "a whole frame";
    case FRAME_MORE:
        return "not a whole frame yet";
    case FRAME_E_MAGIC:
        return "not the protocol of wsd";
    case FRAME_E_VERSION:
        return "another version of the frame header";
    case FRAME_E_TOO_LARGE:
        return "frame larger than 64 KiB";
    default:
        return "unknown answer";
    }
}
