/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-flat.c: any bytes through flat_unpack(), beside protobuf-c's own. Input: a byte that says which message, the message.
 * Keeps: both read the same messages and find the same in them; both make the same bytes of that; what there is no room for is no message.
 */
#include "fuzz.h"

#include <string.h>

#include "proto/flat.h"
#include "proto/wsd.pb-c.h"

#define ROOM (1u << 20)

/* Those that codec.c has read so. */
static const ProtobufCMessageDescriptor *const descriptors[] = {&wsd__pb__submit__descriptor, &wsd__pb__finished__descriptor};

static uint8_t room[ROOM];
static size_t used, most; /* most: bytes that there are */

static void *take(void *userdata, size_t size)
{
    size_t at = (used + 15) & ~(size_t)15;

    FUZZ_CHECK(size > 0); /* what nothing is asked for may be anything */
    if (at > most || size > most - at)
        return NULL;
    used = at + size;
    memset(room + at, 0xa5, size);
    return room + at;
}

static void give(void *userdata, void *pointer)
{
}

static ProtobufCAllocator bounded = {.alloc = take, .free = give};

static bool same_bytes(const ProtobufCBinaryData *ours, const ProtobufCBinaryData *theirs)
{
    FUZZ_CHECK(ours->len == 0 || ours->data[ours->len] == 0);
    return ours->len == theirs->len && (ours->len == 0 || memcmp(ours->data, theirs->data, ours->len) == 0);
}

static const void *at(const ProtobufCMessage *m, size_t offset)
{
    return (const char *)m + offset;
}

static void check_same(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    const ProtobufCMessageDescriptor *d = a->descriptor;

    FUZZ_CHECK(d == b->descriptor);
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const void *x = at(a, f->offset), *y = at(b, f->offset);

        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            const size_t *n = at(a, f->quantifier_offset), *n_of_b = at(b, f->quantifier_offset);
            ProtobufCBinaryData *const *of_a = x, *const *of_b = y;

            FUZZ_CHECK(*n == *n_of_b);
            for (size_t k = 0; k < *n; k++)
                FUZZ_CHECK(same_bytes(&(*of_a)[k], &(*of_b)[k]));
        } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
            FUZZ_CHECK(same_bytes(x, y));
        } else if (f->type == PROTOBUF_C_TYPE_UINT64) {
            FUZZ_CHECK(memcmp(x, y, 8) == 0);
        } else {
            FUZZ_CHECK(memcmp(x, y, 4) == 0);
        }
    }
}

/* Without what only one of them packs: repeated fields, and what protobuf-c did not know and has kept. */
static void check_packed(ProtobufCMessage *m)
{
    static uint8_t ours[ROOM], theirs[ROOM];
    const ProtobufCMessageDescriptor *d = m->descriptor;

    m->n_unknown_fields = 0;
    for (unsigned i = 0; i < d->n_fields; i++)
        if (d->fields[i].label == PROTOBUF_C_LABEL_REPEATED)
            memset((char *)m + d->fields[i].quantifier_offset, 0, sizeof(size_t));
    size_t n = protobuf_c_message_pack(m, theirs);
    FUZZ_CHECK(flat_pack(m, ours) == n && memcmp(ours, theirs, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 65536)
        return 0;
    const ProtobufCMessageDescriptor *d = descriptors[data[0] % 2];
    FUZZ_CHECK(flat_fits(d));

    used = 0;
    most = ROOM;
    ProtobufCMessage *ours = flat_unpack(d, &bounded, size - 1, data + 1);
    size_t needed = used;
    ProtobufCMessage *theirs = protobuf_c_message_unpack(d, NULL, size - 1, data + 1);
    FUZZ_CHECK(!ours == !theirs);
    if (!ours)
        return 0;
    check_same(ours, theirs);
    protobuf_c_message_free_unpacked(theirs, NULL);
    check_packed(ours);

    used = 0;
    most = needed;
    FUZZ_CHECK(flat_unpack(d, &bounded, size - 1, data + 1));
    used = 0;
    most = needed - 1 - data[0] % needed; /* any that is too little */
    FUZZ_CHECK(!flat_unpack(d, &bounded, size - 1, data + 1));
    return 0;
}
