/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.h: messages of numbers and bytes only, packed and unpacked by protobuf-c's own tables, in one pass each.
 *
 * protobuf_c_message_unpack() looks for what can be in any message: required fields, oneofs, messages in messages, unknown fields to be
 * kept; it takes three passes and 2,000 instructions for a FINISHED, a quarter of all that libwsclient does for a job. The two messages of which
 * there is one a job go by these, in a third of that. The bytes are those of protobuf-c, and so is what is understood: tests/fuzz/fuzz-flat.c
 * holds one against the other. All of this is [any].
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* uint32, uint64, sint32, bool and bytes without presence, and repeated bytes. */
bool flat_fits(const ProtobufCMessageDescriptor *descriptor);

/* The message with its bytes, behind each of which there is a NUL; all from the allocator, and once the bytes of the whole. Unknown fields
 * are left out. NULL: it cannot be read, or there is no room. */
ProtobufCMessage *flat_unpack(const ProtobufCMessageDescriptor *descriptor, ProtobufCAllocator *allocator, size_t size, const uint8_t *data);

/* How much it takes: as many bytes as protobuf_c_message_get_packed_size() says. Repeated fields have to be empty. */
size_t flat_pack(const ProtobufCMessage *message, uint8_t *ret);
