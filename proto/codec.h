/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.h: packed protobuf bytes <-> the plain structs of messages.h. protobuf-c stops here: nothing above sees its types.
 *
 * A struct codec owns the arena that decoded messages live in, so a decode costs no malloc and hostile bytes cannot
 * make it grow above CODEC_ARENA. One codec is used by one thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/messages.h"

struct codec;
struct message; /* fields.h */

int codec_new(struct codec **ret_codec); /* 0 or -ENOMEM */
struct codec *codec_free(struct codec *codec);

/* Positive answers of codec_decode(). */
enum {
    CODEC_E_TYPE = 1,  /* no such frame type (an older or newer peer: the caller decides) */
    CODEC_E_BYTES = 2, /* not what protobuf can read, or beyond the arena */
    CODEC_E_LIMIT = 3, /* a length, count or value is out of range */
};

/* Checks every length, count and enumeration, and gives plain values. DONE needs a final state. AWAIT, STATUS and
 * ACCEPTED need an id. Only SUBMIT, ARRAY, INPUT, OUTPUT, FINISHED, ENDS, PIECE, PING, PONG, RUN, RUN_INPUT, RUN_OUTPUT
 * and RUN_END may have a body. Those of ARRAY and ENDS are checked too, so that codec_next_item(), codec_next_end() and codec_next_one() cannot fail then.
 * The caller checks empty names, tags and the order of messages. *ret_msg and what it points to live until the next
 * decode with the same codec. Text with a NUL inside is CODEC_E_LIMIT. [one thread a codec] */
int codec_decode(struct codec *codec, const struct frame *frame, struct msg *ret_msg);
/* The same for a frame that codec_decode() has accepted before: its body is not looked through again. */
int codec_decode_again(struct codec *codec, const struct frame *frame, struct msg *ret_msg);

/* Why the last codec_decode() failed, as text for the peer. */
const char *codec_strerror(const struct codec *codec);

/* The field of a message that is out of range, for the sender; NULL: the message can be encoded. */
const char *codec_problem(const struct msg *msg);

/* The name of a frame type, for people: "SUBMIT"; "?" for an unknown one. */
const char *codec_type_name(uint16_t type);

/* Room that is enough for codec_encode(), an upper bound; 0: no such type. */
size_t codec_room(const struct msg *msg);

/* Writes the fixed header and the protobuf header to ret, which has room for `room` bytes: codec_room() is enough. The
 * caller appends the body. Returns the bytes written. 0: frame and body would exceed FRAME_MAX, they do not fit, or a
 * value is out of range. [any; allocates nothing] */
size_t codec_encode(const struct msg *msg, uint32_t tag, size_t body_size, uint8_t *ret, size_t room);

/* The table of the fields of a frame type. NULL: there is no such type. [any] */
const struct message *codec_message(uint16_t frame_type);
