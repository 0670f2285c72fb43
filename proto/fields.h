/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.h: converts protobuf's bytes to plain structs and back, with one table per message.
 *
 * Numbers and types of fields are those of protobuf-c's descriptors. A table beside each descriptor says where the
 * field is in the plain struct, and what it may hold. Packing, unpacking, limits and sizes all use these two.
 * protobuf_c_message_unpack() handles all that any message can have: required fields, oneofs, unknown fields to be
 * kept. It takes three passes, and a struct of its own that would then have to be copied. The bytes, and what is
 * accepted, are those of protobuf-c: tests/fuzz/fuzz-fields.c compares the two. All of this is [any].
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_kind {
    FIELD_NUMBER,   /* uint32_t, uint64_t, bool: from least to most */
    FIELD_SIGNED,   /* int32_t: from -most to most */
    FIELD_FLAGS,    /* bits of most */
    FIELD_ID,       /* 16 bytes, always there */
    FIELD_MAYBE_ID, /* struct msg_id */
    FIELD_LIST,     /* pointer and size_t: most elements */
    FIELD_TEXT,     /* span without a NUL inside: least bytes, and room for most with the NUL behind it */
    FIELD_TAGS,     /* span: most names with commas between */
    FIELD_IDS,      /* span: ids one after the other, at most most bytes */
    FIELD_ARGS,     /* span: the arguments of a struct msg_submit. They are packed after all other fields */
    FIELD_ABSENT,   /* span without a field: empty after unpacking */
};
#define FIELD_FIRST_SPAN FIELD_TEXT

struct message;

struct field {
    const char *name;    /* of the member, and of the field */
    const char *problem; /* the name in messages about its range */
    uint64_t least, most;
    const struct message *of; /* an element of a list */
    uint16_t offset;
    uint8_t size; /* of a number */
    uint8_t kind; /* enum field_kind */
};

/* The fields are in the order of the descriptor; those that are FIELD_ABSENT come last. */
struct message {
    const ProtobufCMessageDescriptor *descriptor;
    const struct field *fields;
    uint32_t n_fields;
    uint32_t size; /* of the plain struct */
};

/* Where the bytes of unpacked messages go. */
struct arena {
    uint8_t *data;
    size_t used, size;
};

/* Whether the table matches its descriptor. */
bool message_fits(const struct message *m);

/* NULL, or the first field that is out of range. */
const char *message_problem(const struct message *m, const void *plain);

/* Reads the message into *ret, with a NUL after each text. Skips unknown fields. False with *ret_problem: that field is
 * out of range. False with *ret_problem NULL: the message is malformed or the arena is full. */
bool message_unpack(const struct message *m, struct arena *arena, const uint8_t *data, size_t size, void *ret,
                    const char **ret_problem);

/* Writes the message. Returns its end. NULL: it does not fit, or message_problem() finds a problem. */
uint8_t *message_pack(const struct message *m, const void *plain, uint8_t *ret, const uint8_t *end);

/* An upper bound of its packed size, in bytes. */
size_t message_room(const struct message *m, const void *plain);
