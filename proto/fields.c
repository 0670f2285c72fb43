/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c: converts protobuf's bytes to plain structs and back, with one table per message.
 * Owns nothing. [any]
 * Keeps: reads nothing beyond its input, and writes nothing beyond its end. Takes no more from the arena than the bytes
 * of the message, its arguments and its lists.
 * Does not know what fields mean. */
#include "proto/fields.h"

#include <string.h>

#include "proto/codec.h"
#include "proto/records.h"

#define TAG_BYTES    5u /* of a 32-bit number with its wire type */
#define VARINT_BYTES 10u
#define FIELD_BYTES  16u /* at most, before the bytes of a span */
#define ID_SIZE      16u

static void *member(void *plain, const struct field *f)
{
    return (char *)plain + f->offset;
}

static const void *member_of(const void *plain, const struct field *f)
{
    return (const char *)plain + f->offset;
}

/* A list is a pointer and its number of elements, in whatever struct. */
struct list_member {
    const void *data;
    size_t n;
};

static inline uint64_t number_of(const struct field *f, const void *plain)
{
    const void *at = member_of(plain, f);

    return f->size == 4 ? *(const uint32_t *)at : f->size == 8 ? *(const uint64_t *)at : *(const bool *)at;
}

/* --- the tables --------------------------------------------------------------------------------------------------- */

static bool is_number(const struct field *f, const ProtobufCFieldDescriptor *d)
{
    switch (d->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return f->kind == FIELD_NUMBER && f->size == sizeof(bool);
    case PROTOBUF_C_TYPE_UINT32:
        return (f->kind == FIELD_NUMBER || f->kind == FIELD_FLAGS) && f->size == 4;
    case PROTOBUF_C_TYPE_UINT64:
        return (f->kind == FIELD_NUMBER || f->kind == FIELD_FLAGS) && f->size == 8;
    case PROTOBUF_C_TYPE_SINT32:
        return f->kind == FIELD_SIGNED && f->size == 4;
    default:
        return false;
    }
}

static bool field_fits(const struct field *f, const ProtobufCFieldDescriptor *d)
{
    const char *dot = strrchr(f->name, '.');

    if (strcmp(dot ? dot + 1 : f->name, d->name) != 0)
        return false;
    if (f->kind == FIELD_LIST)
        return d->label == PROTOBUF_C_LABEL_REPEATED && d->type == PROTOBUF_C_TYPE_MESSAGE &&
               d->descriptor == f->of->descriptor && message_fits(f->of);
    if (f->kind == FIELD_ARGS)
        return d->label == PROTOBUF_C_LABEL_REPEATED && d->type == PROTOBUF_C_TYPE_BYTES;
    return d->label == PROTOBUF_C_LABEL_NONE && (d->type == PROTOBUF_C_TYPE_BYTES ? !f->size : is_number(f, d));
}

bool message_fits(const struct message *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;

    if (m->n_fields < d->n_fields)
        return false;
    for (uint32_t i = 0; i < m->n_fields; i++)
        if (i < d->n_fields ? !field_fits(&m->fields[i], &d->fields[i]) : m->fields[i].kind != FIELD_ABSENT)
            return false;
    return true;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static bool are_tags(struct span s, uint64_t most)
{
    uint64_t n = 0;

    for (size_t at = 0, size; at < s.size; at += size + 1) {
        const char *comma = memchr(s.data + at, ',', s.size - at);

        size = comma ? (size_t)(comma - s.data) - at : s.size - at;
        if (!codec_is_tag(s.data + at, size) || ++n > most || (comma && at + size + 1 == s.size))
            return false;
    }
    return true;
}

static inline bool number_fits(const struct field *f, uint64_t n)
{
    if (f->kind == FIELD_NUMBER)
        return n >= f->least && n <= f->most;
    if (f->kind == FIELD_FLAGS)
        return !(n & ~f->most);
    return (int32_t)n >= -(int32_t)f->most && (int32_t)n <= (int32_t)f->most;
}

static inline bool span_fits(const struct field *f, struct span s)
{
    if (f->kind == FIELD_TEXT)
        return s.size >= f->least && codec_is_text(s, f->most);
    return f->kind == FIELD_TAGS ? are_tags(s, f->most) : s.size <= f->most && s.size % ID_SIZE == 0;
}

static const struct msg_submit *submit_of(const struct span *args)
{
    return (const void *)((const char *)args - offsetof(struct msg_submit, args));
}

static const char *list_problem(const struct field *f, const struct list_member *list)
{
    const char *problem = list->n > f->most ? f->problem : NULL;

    for (size_t i = 0; i < list->n && !problem; i++)
        problem = message_problem(f->of, (const char *)list->data + i * f->of->size);
    return problem;
}

static const char *problem_of(const struct field *f, const void *plain)
{
    const void *at = member_of(plain, f);
    const struct span *s = at;

    if (f->size)
        return number_fits(f, number_of(f, plain)) ? NULL : f->problem;
    switch (f->kind) {
    case FIELD_ID:
    case FIELD_MAYBE_ID:
    case FIELD_ABSENT:
        return NULL;
    case FIELD_LIST:
        return list_problem(f, at);
    case FIELD_ARGS:
        return codec_args_problem(*s, submit_of(s)->argc);
    default:
        return span_fits(f, *s) ? NULL : f->problem;
    }
}

const char *message_problem(const struct message *m, const void *plain)
{
    const char *problem = NULL;

    for (uint32_t i = 0; i < m->n_fields && !problem; i++)
        problem = problem_of(&m->fields[i], plain);
    return problem;
}

/* --- unpacking ---------------------------------------------------------------------------------------------------- */

/* What is left to read. */
struct input {
    const uint8_t *at, *end;
};

static inline bool get_varint(struct input *in, unsigned bytes, uint64_t *ret)
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

/* A field as it was read: its number and wire type; its value, and where that ends; or where its bytes are. */
struct token {
    uint32_t number;
    uint8_t wire;
    uint64_t value;
    const uint8_t *bytes;
};

static inline bool skip_bytes(struct input *in, size_t size)
{
    if ((size_t)(in->end - in->at) < size)
        return false;
    in->at += size;
    return true;
}

static inline __attribute__((always_inline)) bool get_token(struct input *in, struct token *ret)
{
    uint64_t tag;

    if ((in->at < in->end && *in->at < 1 << 3) || !get_varint(in, TAG_BYTES, &tag)) /* no field is number 0 */
        return false;
    ret->number = (uint32_t)(tag >> 3);
    ret->wire = tag & 7;
    switch (ret->wire) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        if (!get_varint(in, VARINT_BYTES, &ret->value))
            return false;
        ret->bytes = in->at;
        return true;
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (!get_varint(in, TAG_BYTES, &ret->value))
            return false;
        ret->bytes = in->at;
        return skip_bytes(in, ret->value);
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        return skip_bytes(in, 8);
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        return skip_bytes(in, 4);
    default:
        return false;
    }
}

/* What is read, and a copy of it in which the bytes of fields stay: a NUL goes behind each, where the copy has the next
 * field's number. */
struct source {
    const uint8_t *data;
    uint8_t *copy;
    size_t size;
    struct arena *arena;
    const char *problem;
};

static void *arena_take(struct arena *a, size_t size)
{
    size_t at = (a->used + 15) & ~(size_t)15;

    if (at > a->size || size > a->size - at)
        return NULL;
    a->used = at + size;
    return a->data + at;
}

static bool too_much(struct source *from, const char *problem)
{
    from->problem = problem;
    return false;
}

static bool append_arg(const struct token *t, struct source *from, struct span *args)
{
    struct msg_submit *s = (void *)((char *)args - offsetof(struct msg_submit, args));
    /* each has come with two bytes at least */
    size_t room = from->size < CODEC_ARGS_SIZE ? from->size : CODEC_ARGS_SIZE;
    char *to = s->argc ? (char *)(uintptr_t)args->data : arena_take(from->arena, room);

    if (!to)
        return false;
    if (s->argc == CODEC_ARGS_MAX)
        return too_much(from, "number of arguments");
    if (t->value >= CODEC_ARGS_SIZE - args->size)
        return too_much(from, "size of the arguments");
    if (memccpy(to + args->size, t->bytes, 0, t->value))
        return too_much(from, "NUL inside an argument");
    to[args->size + t->value] = 0;
    *args = (struct span){to, args->size + t->value + 1};
    s->argc++;
    return true;
}

static bool unpack(const struct message *m, struct input in, struct source *from, void *ret);

/* One more, with room from the first on for all that are still to come. */
static bool append(const struct field *f, const struct token *t, struct input rest, struct source *from,
                   struct list_member *list)
{
    if (list->n == 0) {
        struct token other;
        size_t all = 1;

        while (rest.at < rest.end && get_token(&rest, &other))
            all += other.number == t->number;
        if (all > f->most)
            return too_much(from, f->problem);
        list->data = arena_take(from->arena, all * f->of->size);
        if (!list->data)
            return false;
    }
    void *element = (char *)(uintptr_t)list->data + list->n++ * f->of->size;
    return unpack(f->of, (struct input){t->bytes, t->bytes + t->value}, from, element);
}

static bool set_id(const struct token *t, struct source *from, const char *problem, uint8_t *ret)
{
    if (t->value != ID_SIZE)
        return too_much(from, problem);
    memcpy(ret, t->bytes, ID_SIZE);
    return true;
}

static bool set_span(const struct field *f, const struct token *t, struct source *from, struct span *to)
{
    char *at = (char *)from->copy + (t->bytes - from->data);

    at[t->value] = 0;
    *to = (struct span){at, t->value};
    return span_fits(f, *to) || too_much(from, f->problem);
}

static bool set_bytes(const struct field *f, const struct token *t, struct input rest, struct source *from, void *to)
{
    struct msg_id *id = to;

    switch (f->kind) {
    case FIELD_LIST:
        return append(f, t, rest, from, to);
    case FIELD_ARGS:
        return append_arg(t, from, to);
    case FIELD_ID:
        return set_id(t, from, f->problem, to);
    case FIELD_MAYBE_ID:
        id->has_id = t->value > 0;
        return !id->has_id || set_id(t, from, f->problem, id->id);
    default:
        return set_span(f, t, from, to);
    }
}

static inline bool set_field(const struct field *f, const struct token *t, struct input rest, struct source *from,
                             void *to)
{
    uint64_t value = t->value;

    if (t->wire != (f->size ? PROTOBUF_C_WIRE_TYPE_VARINT : PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED))
        return false;
    if (!f->size)
        return set_bytes(f, t, rest, from, to);
    if (f->kind == FIELD_SIGNED)
        value = (uint32_t)value >> 1 ^ -((uint32_t)value & 1); /* zigzag */
    if (f->size == sizeof(bool))
        *(bool *)to = (value = value || t->bytes[-1]); /* bits above the 64th count, too, as in protobuf-c */
    else if (f->size == 4)
        *(uint32_t *)to = (uint32_t)(value &= UINT32_MAX);
    else
        *(uint64_t *)to = value;
    return number_fits(f, value) || too_much(from, f->problem);
}

/* What did not come: texts are empty, not nowhere. */
static bool finish_message(const struct message *m, uint64_t seen, struct source *from, void *ret)
{
    for (uint32_t i = 0; i < m->n_fields; i++) {
        const struct field *f = &m->fields[i];

        if (seen & 1ull << i)
            continue;
        if (f->least || f->kind == FIELD_ID)
            return too_much(from, f->problem);
        if (f->kind >= FIELD_FIRST_SPAN)
            ((struct span *)member(ret, f))->data = "";
    }
    return true;
}

/* The index of a field; n_fields: it is unknown. Looks from `next` on first: fields were most likely packed in the
 * order of their numbers. */
static inline unsigned find_field(const ProtobufCMessageDescriptor *d, uint32_t number, unsigned next)
{
    while (next < d->n_fields && d->fields[next].id < number)
        next++;
    if (next < d->n_fields && d->fields[next].id == number)
        return next;
    const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(d, number);
    return f ? (unsigned)(f - d->fields) : d->n_fields;
}

static bool unpack(const struct message *m, struct input in, struct source *from, void *ret)
{
    unsigned i = 0, n = m->descriptor->n_fields;
    uint64_t seen = 0;
    struct token t = {0};

    memset(ret, 0, m->size);
    while (in.at < in.end) {
        if (!get_token(&in, &t))
            return false;
        i = find_field(m->descriptor, t.number, i < n ? i : 0);
        if (i == n)
            continue;
        if (!set_field(&m->fields[i], &t, in, from, member(ret, &m->fields[i])))
            return false;
        seen |= 1ull << i;
    }
    return finish_message(m, seen, from, ret);
}

bool message_unpack(const struct message *m, struct arena *arena, const uint8_t *data, size_t size, void *ret,
                    const char **ret_problem)
{
    struct source from = {.data = data, .copy = arena_take(arena, size + 1), .size = size, .arena = arena};

    *ret_problem = NULL;
    if (!from.copy)
        return false;
    if (size)
        memcpy(from.copy, data, size);
    bool ok = unpack(m, (struct input){data, data + size}, &from, ret);
    *ret_problem = from.problem;
    return ok;
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

/* Where the next byte goes. After a value that did not fit, or was out of range, no room is left. */
struct output {
    uint8_t *at;
    const uint8_t *end;
    bool failed;
};

static bool fail(struct output *o)
{
    o->end = o->at;
    o->failed = true;
    return false;
}

static size_t varint_size(uint64_t value)
{
    return (size_t)(70 - __builtin_clzll(value | 1)) / 7;
}

static inline uint8_t *put_varint(uint8_t *to, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

/* The field's number and wire type, and its value or the size of its bytes, for which there is room then. */
static inline bool put_head(struct output *o, const ProtobufCFieldDescriptor *d, ProtobufCWireType wire, uint64_t value)
{
    uint64_t tag = (uint64_t)d->id << 3 | wire;
    size_t bytes = wire == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED ? value : 0, left = (size_t)(o->end - o->at);

    if (left < FIELD_BYTES || bytes > left - FIELD_BYTES) /* not plenty */
        if (varint_size(tag) + varint_size(value) + bytes > left)
            return fail(o);
    o->at = put_varint(put_varint(o->at, tag), value);
    return true;
}

static inline void put_bytes(struct output *o, const ProtobufCFieldDescriptor *d, const void *data, size_t size)
{
    if (!put_head(o, d, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, size))
        return;
    memcpy(o->at, data, size);
    o->at += size;
}

static void pack(const struct message *m, const void *plain, struct output *o);

/* How long an element is, is known behind it: it moves then. */
static void put_element(struct output *o, const ProtobufCFieldDescriptor *d, const struct message *m, const void *plain)
{
    uint8_t *start = o->at;

    pack(m, plain, o);
    size_t size = (size_t)(o->at - start), head = varint_size((uint64_t)d->id << 3) + varint_size(size);
    if (o->failed || head > (size_t)(o->end - o->at)) {
        (void)fail(o);
        return;
    }
    memmove(start + head, start, size);
    o->at = start;
    (void)put_head(o, d, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, size);
    o->at += size;
}

static void put_args(struct output *o, const ProtobufCFieldDescriptor *d, const struct span *args)
{
    if (codec_args_problem(*args, submit_of(args)->argc))
        (void)fail(o);
    for (size_t at = 0, size; at < args->size && !o->failed; at += size + 1) {
        size = strlen(args->data + at);
        put_bytes(o, d, args->data + at, size);
    }
}

static void put_number(struct output *o, const ProtobufCFieldDescriptor *d, const struct field *f, uint64_t value)
{
    bool fits = number_fits(f, value);

    if (f->kind == FIELD_SIGNED) /* zigzag */
        value = (uint32_t)value << 1 ^ (value >> 31 ? UINT32_MAX : 0);
    (void)(fits ? put_head(o, d, PROTOBUF_C_WIRE_TYPE_VARINT, value) : fail(o));
}

static void put_list(struct output *o, const ProtobufCFieldDescriptor *d, const struct field *f,
                     const struct list_member *list)
{
    if (list->n > f->most)
        (void)fail(o);
    for (size_t i = 0; i < list->n && !o->failed; i++)
        put_element(o, d, f->of, (const char *)list->data + i * f->of->size);
}

static inline void put_field(struct output *o, const ProtobufCFieldDescriptor *d, const struct field *f,
                             const void *from)
{
    const struct msg_id *id = from;
    const struct span *s = from;

    if (f->kind == FIELD_ID)
        put_bytes(o, d, from, ID_SIZE);
    else if (f->kind == FIELD_LIST)
        put_list(o, d, f, from);
    else if (f->kind == FIELD_MAYBE_ID && id->has_id)
        put_bytes(o, d, id->id, ID_SIZE);
    else if (f->kind >= FIELD_FIRST_SPAN && !span_fits(f, *s))
        (void)fail(o);
    else if (f->kind >= FIELD_FIRST_SPAN && s->size)
        put_bytes(o, d, s->data, s->size);
}

static void pack(const struct message *m, const void *plain, struct output *o)
{
    const ProtobufCFieldDescriptor *d = m->descriptor->fields, *args = NULL;
    const struct field *f = m->fields;
    uint64_t value;

    for (unsigned left = m->descriptor->n_fields; left; left--, f++, d++) {
        if (f->size) {
            if ((value = number_of(f, plain)) || f->least)
                put_number(o, d, f, value);
        } else if (f->kind == FIELD_ARGS) {
            args = d;
        } else if (f->kind != FIELD_TEXT || ((const struct span *)member_of(plain, f))->size || f->least) {
            put_field(o, d, f, member_of(plain, f));
        }
    }
    if (args)
        put_args(o, args, member_of(plain, &m->fields[args - m->descriptor->fields]));
}

uint8_t *message_pack(const struct message *m, const void *plain, uint8_t *ret, const uint8_t *end)
{
    struct output o = {ret, end, false};

    pack(m, plain, &o);
    return o.failed ? NULL : o.at;
}

static size_t room_of(const struct field *f, const void *from)
{
    const struct list_member *list = from;
    const struct span *s = from;
    size_t room = 0;

    switch (f->kind) {
    case FIELD_ID:
    case FIELD_MAYBE_ID:
        return ID_SIZE;
    case FIELD_LIST:
        for (size_t i = 0; i < list->n && i < f->most; i++)
            room += message_room(f->of, (const char *)list->data + i * f->of->size);
        return room;
    case FIELD_ARGS: /* each takes up to four bytes before it; its NUL is counted */
        return s->size + (size_t)submit_of(s)->argc * 3;
    default:
        return s->size;
    }
}

size_t message_room(const struct message *m, const void *plain)
{
    size_t room = (m->descriptor->n_fields + 1) * FIELD_BYTES;
    const struct field *f = m->fields;

    for (unsigned left = m->descriptor->n_fields; left; left--, f++)
        if (!f->size)
            room += f->kind == FIELD_TEXT ? ((const struct span *)member_of(plain, f))->size
                                          : room_of(f, member_of(plain, f));
    return room;
}
