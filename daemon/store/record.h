/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h: rows as bytes, and the entries of the log (job-log.h) that hold them. One thread at a time.
 *
 * A record is its fields, in the order of their table in record.c. A number is a varint, least significant bits first
 * (as in Protocol Buffers; priority is zigzag). A text or bytes are their length, as a varint, and their content. A
 * text has its NUL; length 0 means none. An id is its 16 bytes. Fields may be added at the end of a table: an older
 * record ends before them, and they are 0.
 *
 * An entry has four parts. The first is a byte: enum entry_kind, and above it enum entry_flags. Then come the number of
 * its job and the size of the content, both varints. The last is the content: a record, or nothing.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "store/store.h"

enum record {
    /* what the submitter gave; never changes. Has arguments and input where row->args and row->input are not NULL */
    RECORD_GIVEN,
    /* the job's state; a job has none before the end of its first try. Has the output where row->output is not NULL */
    RECORD_KNOWN,
};

enum entry_kind {
    ENTRY_GIVEN = 1,   /* RECORD_GIVEN */
    ENTRY_STARTED = 2, /* it may have begun. A later KNOWN cancels this */
    ENTRY_KNOWN = 3,   /* RECORD_KNOWN, replacing an earlier one */
    ENTRY_GONE = 4,    /* the job is removed */
};

enum entry_flags {
    ENTRY_APART = 1, /* GIVEN: arguments and input are in a table of their own; KNOWN: the output is */
    ENTRY_KEYED = 2, /* GIVEN: there is a key */
    ENTRY_DEAD = 4,  /* KNOWN: row->dead is set */
};

struct entry {
    enum entry_kind kind;
    unsigned flags; /* enum entry_flags */
    uint64_t number;
    const uint8_t *data;
    size_t size;
};

/* Appends the record. Returns 0 or -ENOMEM. */
int record_pack(enum record which, const struct store_row *row, struct buffer *to);
/* Appends one field to a record that is made by hand. Returns 0 or -ENOMEM. */
int record_put_number(struct buffer *to, uint64_t value);
int record_put_bytes(struct buffer *to, const void *data, size_t size);
/* Sets the record's fields of the row; texts and bytes point into data. False: it is damaged, and the fields are
 * undefined. */
bool record_unpack(enum record which, const void *data, size_t size, struct store_row *row);

/* Appends the entry. Returns 0 or -ENOMEM. */
int entry_put(struct buffer *to, const struct entry *e);
size_t entry_size(const struct entry *e); /* bytes that entry_put() appends */
/* Reads the first entry and moves *data and *size behind it. False: the bytes are damaged and do not begin with an
 * entry. */
bool entry_next(const uint8_t **data, size_t *size, struct entry *ret);
