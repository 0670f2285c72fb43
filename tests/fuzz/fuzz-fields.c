/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-fields.c: any bytes through message_unpack(), beside protobuf-c's own. Input: a byte that says which type of
 * frame, the message.
 * Keeps: Both accept the same messages and find the same in them, but for what our limits refuse. Both encode that to
 * the same bytes. Nothing is written beyond its end. A message without enough room is refused.
 */
#include "fuzz.h"

#include <string.h>

#include "proto/codec.h"
#include "proto/fields.h"

#define ROOM (1u << 20)

static uint8_t room[ROOM];

/* What protobuf-c takes goes with the input: it is changed, and not freed. */
#define THEIR_ROOM (16u << 20)

static uint8_t their_room[THEIR_ROOM];
static size_t taken;

static void *take(void *userdata, size_t size)
{
    size_t at = (taken + 15) & ~(size_t)15;

    FUZZ_CHECK(size <= THEIR_ROOM && at <= THEIR_ROOM - size);
    taken = at + size;
    return their_room + at;
}

static void give(void *userdata, void *pointer)
{
}

static ProtobufCAllocator theirs_allocator = {.alloc = take, .free = give};

static const void *at(const void *plain, size_t offset)
{
    return (const char *)plain + offset;
}

static void check_span(const struct span *ours, const ProtobufCBinaryData *theirs)
{
    FUZZ_CHECK(ours->data && ours->data[ours->size] == 0);
    FUZZ_CHECK(ours->size == theirs->len && (ours->size == 0 || memcmp(ours->data, theirs->data, ours->size) == 0));
}

static void check_args(const struct span *ours, const ProtobufCBinaryData *theirs, size_t n)
{
    struct span left = *ours;

    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(left.size > theirs[i].len && left.data[theirs[i].len] == 0);
        FUZZ_CHECK(theirs[i].len == 0 || memcmp(left.data, theirs[i].data, theirs[i].len) == 0);
        left = (struct span){left.data + theirs[i].len + 1, left.size - theirs[i].len - 1};
    }
    FUZZ_CHECK(left.size == 0);
}

static void check_same(const struct message *m, const void *ours, const ProtobufCMessage *theirs);

static void check_list(const struct field *f, const void *ours, ProtobufCMessage *const *theirs, size_t n)
{
    const char *list;
    size_t our_n;

    memcpy(&list, ours, sizeof(list));
    memcpy(&our_n, at(ours, sizeof(list)), sizeof(our_n));
    FUZZ_CHECK(our_n == n);
    for (size_t i = 0; i < n; i++)
        check_same(f->of, list + i * f->of->size, theirs[i]);
}

static uint64_t number(const void *of, size_t size)
{
    uint64_t value = 0;

    memcpy(&value, of, size);
    return value;
}

static void check_same(const struct message *m, const void *ours, const ProtobufCMessage *theirs)
{
    const ProtobufCMessageDescriptor *d = theirs->descriptor;

    FUZZ_CHECK(d == m->descriptor);
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *g = &d->fields[i];
        const struct field *f = &m->fields[i];
        const void *x = at(ours, f->offset), *y = at(theirs, g->offset);
        const struct msg_id *id = x;
        const ProtobufCBinaryData *bytes = y;

        if (f->kind == FIELD_LIST)
            check_list(f, x, *(ProtobufCMessage *const *const *)y, *(const size_t *)at(theirs, g->quantifier_offset));
        else if (f->kind == FIELD_ARGS)
            check_args(x, *(ProtobufCBinaryData *const *)y, *(const size_t *)at(theirs, g->quantifier_offset));
        else if (f->kind == FIELD_ID)
            FUZZ_CHECK(bytes->len == 16 && memcmp(x, bytes->data, 16) == 0);
        else if (f->kind == FIELD_MAYBE_ID)
            FUZZ_CHECK(bytes->len == (id->has_id ? 16 : 0) && (!id->has_id || memcmp(id->id, bytes->data, 16) == 0));
        else if (f->size)
            FUZZ_CHECK(number(x, f->size) == (g->type == PROTOBUF_C_TYPE_BOOL ? !!number(y, 4) : number(y, f->size)));
        else
            check_span(x, y);
    }
}

/* Drops what protobuf-c did not know and has kept, and arguments, which we pack behind the rest. */
static void leave_known(ProtobufCMessage *m)
{
    m->n_unknown_fields = 0;
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        size_t *n = (size_t *)(uintptr_t)at(m, f->quantifier_offset);

        if (f->label != PROTOBUF_C_LABEL_REPEATED)
            continue;
        if (f->type == PROTOBUF_C_TYPE_BYTES)
            *n = 0;
        for (size_t k = 0; k < *n; k++)
            leave_known((*(ProtobufCMessage *const *const *)at(m, f->offset))[k]);
    }
}

union plain {
    struct msg msg;
    struct msg_submit submit;
    struct msg_schedule schedule;
    struct msg_run run;
};

static void check_packed(const struct message *m, union plain *ours, ProtobufCMessage *theirs)
{
    static uint8_t a[ROOM], b[ROOM];
    struct msg_submit *with_args = m == codec_message(FRAME_SCHEDULE) ? &ours->schedule.job
                                   : m == codec_message(FRAME_RUN)    ? &ours->run.job
                                   : m == codec_message(FRAME_SUBMIT) ? &ours->submit
                                                                      : NULL;

    if (message_problem(m, ours))
        return;
    const uint8_t *end = message_pack(m, ours, a, a + ROOM);
    FUZZ_CHECK(end && (size_t)(end - a) <= message_room(m, ours));
    size_t n = (size_t)(end - a);
    FUZZ_CHECK(message_pack(m, ours, a, a + n) == end);
    FUZZ_CHECK(n == 0 || !message_pack(m, ours, a, a + n - 1));

    leave_known(theirs);
    if (with_args)
        with_args->args.size = with_args->argc = 0;
    n = protobuf_c_message_pack(theirs, b);
    FUZZ_CHECK(message_pack(m, ours, a, a + n) == a + n && memcmp(a, b, n) == 0);
}

/* A copy of its own for the bytes: what is read behind them is found. */
static bool unpack(const struct message *m, const uint8_t *data, size_t size, size_t most, union plain *ret,
                   size_t *ret_used, const char **ret_problem)
{
    struct arena arena = {room, 0, most};

    memset(room, 0xa5, sizeof(room) < size * 4 + 65536 ? sizeof(room) : size * 4 + 65536);
    memset(ret, 0x5a, sizeof(*ret));
    bool ok = message_unpack(m, &arena, data, size, ret, ret_problem);
    FUZZ_CHECK(arena.used <= most);
    *ret_used = arena.used;
    return ok;
}

/* protobuf-c takes a bool of any wire type. */
static bool has_bool(const struct message *m)
{
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        if (m->fields[i].size == sizeof(bool))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct message *m = size ? codec_message(data[0]) : NULL;
    union plain ours;
    const char *problem;
    size_t used, less;

    if (!m || size > 65536)
        return 0;
    FUZZ_CHECK(message_fits(m) && m->size <= sizeof(ours));
    taken = 0;
    bool whole = unpack(m, data + 1, size - 1, ROOM, &ours, &used, &problem);
    ProtobufCMessage *theirs = protobuf_c_message_unpack(m->descriptor, &theirs_allocator, size - 1, data + 1);
    FUZZ_CHECK(problem ? !whole : whole == !!theirs || (theirs && has_bool(m)));
    if (whole) {
        check_same(m, &ours, theirs);
        check_packed(m, &ours, theirs);
        FUZZ_CHECK(unpack(m, data + 1, size - 1, used, &ours, &less, &problem));
        /* any that is too little */
        FUZZ_CHECK(!unpack(m, data + 1, size - 1, used - 1 - data[0] % used, &ours, &less, &problem));
    }
    return 0;
}
