/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h: rows as bytes, and the entries of the log (log.h) that they go into. One thread at a time.
 *
 * A record is its fields in the order of their table in record.c. A number is a varint, least significant bits first
 * (as in Protocol Buffers; priority zigzag); a text or bytes are their length, as such a number, and they; a text has
 * its NUL, none is the length 0; an id is its 16 bytes. Fields may be added at the end of a table: a record that is
 * older ends before them, and they are 0.
 *
 * An entry is a byte (enum entry_kind, and above it enum entry_flags), the number of its job and the size of what
 * follows, both varints, and that: a record, or nothing.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "store/store.h"

enum record {
    /* what its submitter said: never changes. Arguments and input where row->args and row->input are not NULL */
    RECORD_GIVEN,
    RECORD_KNOWN, /* what has become of it. Before a job's first try is over there is none. The output likewise */
};

enum entry_kind {
    ENTRY_GIVEN = 1,   /* RECORD_GIVEN */
    ENTRY_STARTED = 2, /* it may have begun. What is known, when it comes, takes that back */
    ENTRY_KNOWN = 3,   /* RECORD_KNOWN, instead of one before */
    ENTRY_GONE = 4,    /* nothing of it is wanted any more */
};

enum entry_flags {
    ENTRY_APART = 1, /* GIVEN: arguments and input stand in a table of their own; KNOWN: the output does */
    ENTRY_KEYED = 2, /* GIVEN: there is a key */
    ENTRY_DEAD = 4,  /* KNOWN: as row->dead */
};

struct entry {
    enum entry_kind kind;
    unsigned flags; /* enum entry_flags */
    uint64_t number;
    const uint8_t *data;
    size_t size;
};

/* Behind what the buffer has. 0 or -ENOMEM. */
int record_pack(enum record which, const struct store_row *row, struct buffer *to);
/* The next field of one that is made by hand. 0 or -ENOMEM. */
int record_put_number(struct buffer *to, uint64_t value);
int record_put_bytes(struct buffer *to, const void *data, size_t size);
/* Its fields of the row; texts and bytes point into data. False: it is damaged, and the fields are anything. */
bool record_unpack(enum record which, const void *data, size_t size, struct store_row *row);

/* Behind what the buffer has. 0 or -ENOMEM. */
int entry_put(struct buffer *to, const struct entry *e);
size_t entry_size(const struct entry *e); /* of all that entry_put() puts */
/* The first of so many bytes, which then are what is behind it. False: they are damaged, and begin with none. */
bool entry_next(const uint8_t **data, size_t *size, struct entry *ret);
