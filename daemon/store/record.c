/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c: rows to bytes and back. One table of fields for both ways. */
#include "store/record.h"

#include <errno.h>

#include "base/cleanup.h"

#define VARINT_MAX 10u

#define ENTRY_KIND_BITS 3
#define ENTRY_FLAGS     7u

enum kind { SMALL, NUMBER, SIGNED, ID, TEXT, BYTES };

struct field {
    enum kind kind;
    size_t at, size_at;
};

#define FIELD(kind, name)                                                                                              \
    {                                                                                                                  \
        kind, offsetof(struct store_row, name), 0                                                                      \
    }
#define FIELD_BYTES(name)                                                                                              \
    {                                                                                                                  \
        BYTES, offsetof(struct store_row, name), offsetof(struct store_row, name##_size)                               \
    }

#define KEPT(name, place, ...) [place] = FIELD(TEXT, name),

/* By their places, which never change. KEPT_OPTIONS has those that are not here. */
static const struct field given[] = {[0] = FIELD(TEXT, plugin),
                                     [1] = FIELD(TEXT, function),
                                     [2] = FIELD(TEXT, directory),
                                     [3] = FIELD(SIGNED, priority),
                                     [4] = FIELD(NUMBER, function_flags),
                                     [5] = FIELD(NUMBER, timeout_usec),
                                     [6] = FIELD(NUMBER, retry_usec),
                                     [7] = FIELD(SMALL, retries),
                                     [8] = FIELD(SMALL, retry_on),
                                     [9] = FIELD(NUMBER, submitted_usec),
                                     [10] = FIELD(NUMBER, due_usec),
                                     [11] = FIELD(SMALL, due_at),
                                     [12] = FIELD(NUMBER, delay_usec),
                                     [13] = FIELD(NUMBER, wait_usec),
                                     [14] = FIELD(SMALL, argc),
                                     [16] = FIELD_BYTES(after),
                                     [17] = FIELD(ID, id),
                                     [18] = FIELD(SMALL, uid),
                                     [19] = FIELD(SMALL, state),
                                     [20] = FIELD(TEXT, key),
                                     [21] = FIELD(NUMBER, args_size),
                                     [22] = FIELD(NUMBER, input_size),
                                     [23] = FIELD_BYTES(args),
                                     [24] = FIELD_BYTES(input),
                                     [25] = FIELD(TEXT, title),
                                     KEPT_OPTIONS(KEPT)};
#define ONE(...) +1
_Static_assert(ARRAY_SIZE(given) == 25 KEPT_OPTIONS(ONE), "no place is left out");

static const struct field known[] = {
    FIELD(SMALL, exit),      FIELD(SMALL, retried),     FIELD(SMALL, attempts),     FIELD(NUMBER, due_usec),
    FIELD(SMALL, due_at),    FIELD(NUMBER, ended_usec), FIELD(NUMBER, queued_usec), FIELD(NUMBER, run_usec),
    FIELD(NUMBER, cpu_usec), FIELD(NUMBER, done),       FIELD(NUMBER, total),       FIELD(NUMBER, output_size),
    FIELD(TEXT, error),      FIELD(TEXT, status),       FIELD(TEXT, worker),        FIELD(TEXT, backtrace),
    FIELD(SMALL, state),     FIELD_BYTES(output),       FIELD(NUMBER, requeued),
};

static const struct {
    const struct field *fields;
    size_t n;
} records[] = {
    [RECORD_GIVEN] = {given, ARRAY_SIZE(given)},
    [RECORD_KNOWN] = {known, ARRAY_SIZE(known)},
};

/* --- to bytes ----------------------------------------------------------------------------------------------------- */

static uint8_t *write_number(uint8_t *p, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        *p++ = (uint8_t)(value | 0x80);
    *p++ = (uint8_t)value;
    return p;
}

static const void *part(const struct store_row *row, size_t at)
{
    return (const char *)row + at;
}

static uint64_t number_of(const struct field *f, const struct store_row *row)
{
    int i;

    switch (f->kind) {
    case SMALL:
        return *(const uint32_t *)part(row, f->at);
    case NUMBER:
        return *(const uint64_t *)part(row, f->at);
    case SIGNED:
        i = *(const int *)part(row, f->at);
        return (uint32_t)i << 1 ^ (i < 0 ? UINT32_MAX : 0);
    case ID:
    case TEXT:
    case BYTES:
        break;
    }
    return 0;
}

int record_put_number(struct buffer *to, uint64_t value)
{
    uint8_t *p = buffer_reserve(to, VARINT_MAX);

    if (!p)
        return -ENOMEM;
    buffer_commit(to, (size_t)(write_number(p, value) - p));
    return 0;
}

int record_put_bytes(struct buffer *to, const void *data, size_t size)
{
    uint8_t *p = buffer_reserve(to, VARINT_MAX + size), *q;

    if (!p)
        return -ENOMEM;
    q = write_number(p, size);
    if (size)
        memcpy(q, data, size);
    buffer_commit(to, (size_t)(q - p) + size);
    return 0;
}

static int put_field(struct buffer *to, const struct field *f, const struct store_row *row)
{
    const void *data;
    size_t size;

    if (f->kind == ID)
        return buffer_put(to, part(row, f->at), sizeof(row->id)) < 0 ? -ENOMEM : 0;
    if (f->kind != TEXT && f->kind != BYTES)
        return record_put_number(to, number_of(f, row));
    memcpy(&data, part(row, f->at), sizeof(data));
    size = !data ? 0 : f->kind == TEXT ? strlen(data) + 1 : *(const size_t *)part(row, f->size_at);
    return record_put_bytes(to, data, size);
}

int record_pack(enum record which, const struct store_row *row, struct buffer *to)
{
    int r = 0;

    for (size_t i = 0; i < records[which].n && r == 0; i++)
        r = put_field(to, &records[which].fields[i], row);
    return r;
}

/* --- and back ----------------------------------------------------------------------------------------------------- */

struct bytes {
    const uint8_t *at;
    size_t left;
};

static bool take_number(struct bytes *b, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; b->left && shift < 64; shift += 7) {
        uint8_t byte = *b->at++;

        b->left--;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return shift < 63 || byte <= 1;
    }
    return false;
}

static void *part_of(struct store_row *row, size_t at)
{
    return (char *)row + at;
}

static bool take_field(struct bytes *b, const struct field *f, struct store_row *row)
{
    uint64_t value;
    const void *data;

    if (f->kind == ID) {
        if (b->left < sizeof(row->id))
            return false;
        memcpy(part_of(row, f->at), b->at, sizeof(row->id));
        b->at += sizeof(row->id);
        b->left -= sizeof(row->id);
        return true;
    }
    if (!take_number(b, &value))
        return false;
    switch (f->kind) {
    case NUMBER:
        *(uint64_t *)part_of(row, f->at) = value;
        return true;
    case SMALL:
        *(uint32_t *)part_of(row, f->at) = (uint32_t)value;
        return value <= UINT32_MAX;
    case SIGNED:
        *(int *)part_of(row, f->at) = (int)((uint32_t)value >> 1 ^ (0u - ((uint32_t)value & 1)));
        return value <= UINT32_MAX;
    case ID:
    case TEXT:
    case BYTES:
        break;
    }
    if (value > b->left)
        return false;
    data = value ? b->at : NULL;
    memcpy(part_of(row, f->at), &data, sizeof(data));
    if (f->kind == BYTES && value) /* none: they may stand elsewhere, and the size be known */
        *(size_t *)part_of(row, f->size_at) = (size_t)value;
    else if (f->kind == TEXT && value && strnlen((const char *)b->at, (size_t)value) != value - 1)
        return false;
    b->at += value;
    b->left -= (size_t)value;
    return true;
}

bool record_unpack(enum record which, const void *data, size_t size, struct store_row *row)
{
    struct bytes b = {data, size};

    for (size_t i = 0; i < records[which].n && b.left; i++)
        if (!take_field(&b, &records[which].fields[i], row))
            return false;
    return !b.left;
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

#define HEAD_MAX (1 + 2 * VARINT_MAX)

static size_t head_of(const struct entry *e, uint8_t head[static HEAD_MAX])
{
    head[0] = (uint8_t)(e->kind | e->flags << ENTRY_KIND_BITS);
    return (size_t)(write_number(write_number(head + 1, e->number), e->size) - head);
}

int entry_put(struct buffer *to, const struct entry *e)
{
    uint8_t *p = buffer_reserve(to, HEAD_MAX + e->size);
    size_t n;

    if (!p)
        return -ENOMEM;
    n = head_of(e, p);
    if (e->size)
        memcpy(p + n, e->data, e->size);
    buffer_commit(to, n + e->size);
    return 0;
}

size_t entry_size(const struct entry *e)
{
    uint8_t head[HEAD_MAX];

    return head_of(e, head) + e->size;
}

bool entry_next(const uint8_t **data, size_t *size, struct entry *ret)
{
    struct bytes b = {*data, *size};
    uint64_t n;

    if (!b.left)
        return false;
    ret->kind = *b.at & ((1u << ENTRY_KIND_BITS) - 1);
    ret->flags = *b.at >> ENTRY_KIND_BITS;
    b.at++;
    b.left--;
    if (ret->kind < ENTRY_GIVEN || ret->kind > ENTRY_GONE || ret->flags > ENTRY_FLAGS ||
        !take_number(&b, &ret->number) || !take_number(&b, &n) || n > b.left)
        return false;
    ret->data = b.at;
    ret->size = (size_t)n;
    *data = b.at + n;
    *size = b.left - (size_t)n;
    return true;
}
