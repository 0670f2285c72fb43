/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h: fields of a row that no statement asks for, as one blob: binding and storing each on its own was half of what an
 * INSERT cost. One thread at a time.
 *
 * A record is its fields in the order of their table in record.c. A number is a varint, least significant bits first (as in
 * Protocol Buffers; priority zigzag); a text or bytes are their length, as such a number, and they; a text has its NUL, none is
 * the length 0. Fields may be added at the end of a table: a record that is older ends before them, and they are 0.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "store/store.h"

enum record {
    RECORD_GIVEN, /* what its submitter said: never changes */
    RECORD_KNOWN, /* what has become of it. Before a job's first try is over there is none */
};

/* Behind what the buffer has. 0 or -ENOMEM. */
int record_pack(enum record which, const struct store_row *row, struct buffer *to);
/* The next field of one that is made by hand. 0 or -ENOMEM. */
int record_put_number(struct buffer *to, uint64_t value);
int record_put_bytes(struct buffer *to, const void *data, size_t size);
/* Its fields of the row; texts and bytes point into data. False: it is damaged, and the fields are anything. */
bool record_unpack(enum record which, const void *data, size_t size, struct store_row *row);
