/* SPDX-License-Identifier: Apache-2.0
 *
 * flat.c: messages of numbers and bytes only, without protobuf-c's passes.
 * Owns nothing. [any]
 * Keeps: reads nothing beyond what it is given; takes no more from the allocator than the message, its bytes and their places.
 * Does not know what fields mean, and what they may hold. */
#include "proto/flat.h"

#include <string.h>

#define TAG_BYTES    5u /* of a 32-bit number with its wire type */
#define VARINT_BYTES 10u

/* What is left to read. */
struct input {
    const uint8_t *at, *end;
};

bool flat_fits(const ProtobufCMessageDescriptor *descriptor)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &descriptor->fields[i];

        switch (f->type) {
        case PROTOBUF_C_TYPE_BYTES:
            if (f->label != PROTOBUF_C_LABEL_NONE && f->label != PROTOBUF_C_LABEL_REPEATED)
                return false;
            break;
        case PROTOBUF_C_TYPE_UINT32:
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_SINT32:
        case PROTOBUF_C_TYPE_BOOL:
            if (f->label != PROTOBUF_C_LABEL_NONE)
                return false;
            break;
        default:
            return false;
        }
    }
    return true;
}

static void *member(ProtobufCMessage *message, size_t offset)
{
    return (char *)message + offset;
}

/* --- unpacking --------------------------------------------------------------------------------------------------- */

static bool get_varint(struct input *in, unsigned bytes, uint64_t *ret)
{
    uint64_t value = 0;

    if (__builtin_expect(in->at < in->end && *in->at < 0x80, 1)) {
        *ret = *in->at++;
        return true;
    }

    for (unsigned i = 0; i < bytes && in->at < in->end; i++) {
        uint8_t byte = *in->at++;

        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *ret = value;
            return true;
        }
    }
    return false;
}

/* A field: its number and wire type; its value, or where its bytes are. */
struct field {
    uint32_t number;
    uint8_t wire;
    uint64_t value;
    const uint8_t *bytes;
};

static bool skip(struct input *in, size_t size)
{
    if ((size_t)(in->end - in->at) < size)
        return false;
    in->at += size;
    return true;
}

static bool get_field(struct input *in, struct field *ret)
{
    uint64_t tag;

    if ((in->at < in->end && *in->at < 1 << 3) || !get_varint(in, TAG_BYTES, &tag)) /* no field is number 0 */
        return false;
    ret->number = (uint32_t)tag >> 3;
    ret->wire = tag & 7;
    switch (ret->wire) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        return get_varint(in, VARINT_BYTES, &ret->value);
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!get_varint(in, TAG_BYTES, &ret->value))
            return false;
        ret->bytes = in->at;
        return skip(in, ret->value);
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        return skip(in, 8);
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        return skip(in, 4);
    default:
        return false;
    }
}

/* What is read, and a copy of it in which the bytes of fields stay: a NUL goes behind each, where the copy has the next field's number. */
struct source {
    const uint8_t *data;
    uint8_t *copy;
    ProtobufCAllocator *allocator;
};

static void place(const struct field *f, const struct source *from, ProtobufCBinaryData *ret)
{
    uint8_t *at = from->copy + (f->bytes - from->data);

    at[f->value] = 0;
    *ret = (ProtobufCBinaryData){.len = f->value, .data = at};
}

/* One more, with room from the first on for all that are still to come. */
static bool append(const struct field *f, struct input rest, const struct source *from, size_t *n, ProtobufCBinaryData **places)
{
    if (*n == 0) {
        struct field g;
        size_t all = 1;

        while (rest.at < rest.end && get_field(&rest, &g))
            all += g.number == f->number;
        *places = from->allocator->alloc(from->allocator->allocator_data, all * sizeof(**places));
        if (!*places)
            return false;
    }
    place(f, from, &(*places)[(*n)++]);
    return true;
}

static bool set(ProtobufCMessage *message, const ProtobufCFieldDescriptor *known, const struct field *f, struct input rest,
                const struct source *from)
{
    void *to = member(message, known->offset);
    bool bytes = known->type == PROTOBUF_C_TYPE_BYTES;
    uint32_t word = (uint32_t)f->value;

    if (f->wire != (bytes ? PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED : PROTOBUF_C_WIRE_TYPE_VARINT))
        return false;
    switch (known->type) {
    case PROTOBUF_C_TYPE_UINT32:
        *(uint32_t *)to = word;
        return true;
    case PROTOBUF_C_TYPE_UINT64:
        *(uint64_t *)to = f->value;
        return true;
    case PROTOBUF_C_TYPE_SINT32: /* zigzag */
        *(int32_t *)to = (int32_t)(word >> 1 ^ -(word & 1));
        return true;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)to = f->value != 0;
        return true;
    default:
        if (known->label == PROTOBUF_C_LABEL_REPEATED)
            return append(f, rest, from, member(message, known->quantifier_offset), to);
        place(f, from, to);
        return true;
    }
}

ProtobufCMessage *flat_unpack(const ProtobufCMessageDescriptor *descriptor, ProtobufCAllocator *allocator, size_t size, const uint8_t *data)
{
    ProtobufCMessage *message = allocator->alloc(allocator->allocator_data, descriptor->sizeof_message);
    const ProtobufCFieldDescriptor *known = descriptor->fields, *end = known + descriptor->n_fields;
    struct source from = {data, allocator->alloc(allocator->allocator_data, size + 1), allocator};
    struct input in = {data, data + size};
    struct field f = {0};

    if (!message || !from.copy)
        return NULL;
    if (size)
        memcpy(from.copy, data, size);
    descriptor->message_init(message);
    while (in.at < in.end) {
        if (!get_field(&in, &f))
            return NULL;
        /* who packed it did so in the order of the numbers, most likely */
        while (known < end && known->id < f.number)
            known++;
        const ProtobufCFieldDescriptor *to =
            known < end && known->id == f.number ? known : protobuf_c_message_descriptor_get_field(descriptor, f.number);
        if (to && !set(message, to, &f, in, &from))
            return NULL;
    }
    return message;
}

/* --- packing ------------------------------------------------------------------------------------------------------- */

static uint8_t *put_varint(uint8_t *to, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

static uint8_t *put_tag(uint8_t *to, const ProtobufCFieldDescriptor *f, ProtobufCWireType wire)
{
    return put_varint(to, (uint64_t)f->id << 3 | wire);
}

/* What is 0 where there is nothing to pack; of bytes their number. */
static uint64_t raw(const ProtobufCFieldDescriptor *f, const void *from)
{
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)from)->len;
    return f->type == PROTOBUF_C_TYPE_UINT64 ? *(const uint64_t *)from : *(const uint32_t *)from;
}

size_t flat_pack(const ProtobufCMessage *message, uint8_t *ret)
{
    const ProtobufCFieldDescriptor *f = message->descriptor->fields, *end = f + message->descriptor->n_fields;
    uint8_t *to = ret;

    for (; f < end; f++) {
        const void *from = (const char *)message + f->offset;
        uint64_t value = f->label == PROTOBUF_C_LABEL_REPEATED ? 0 : raw(f, from);

        if (value == 0)
            continue;
        if (f->type == PROTOBUF_C_TYPE_BYTES) {
            to = put_varint(put_tag(to, f, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED), value);
            memcpy(to, ((const ProtobufCBinaryData *)from)->data, value);
            to += value;
            continue;
        }
        if (f->type == PROTOBUF_C_TYPE_SINT32) /* zigzag */
            value = (uint32_t)value << 1 ^ (value >> 31 ? UINT32_MAX : 0);
        else if (f->type == PROTOBUF_C_TYPE_BOOL)
            value = 1;
        to = put_varint(put_tag(to, f, PROTOBUF_C_WIRE_TYPE_VARINT), value);
    }
    return (size_t)(to - ret);
}
