/* SPDX-License-Identifier: Apache-2.0
 *
 * records.h: the bodies of ARRAY, ENDS and FUNCTION_STATS, record by record. [any]
 */
#pragma once

#include "proto/messages.h"

/* One item in the body of an ARRAY. */
struct msg_item {
    struct span args; /* each with its NUL */
    uint32_t argc;
    struct span input;
};

/* One record in the body of ENDS: an end, or output before it (RUNNING), or why items were not accepted. */
struct msg_end {
    /* n: for so many from this one on. More than 1 only of a refusal, and of what went well: see struct msg_one */
    uint32_t index, n;
    uint32_t state; /* 0: refused with code exit and error; 4: more output; else final */
    uint32_t exit, attempts;
    uint64_t queued_usec, run_usec, cpu_usec;     /* queued_usec: of a refusal, worth another try after this */
    struct span worker, error, status, backtrace; /* not followed by a NUL */
    struct span output;
};

/* One item of a record that is for several which went well, one after the other. The output of the record is n of them,
 * its run_usec and cpu_usec are 0. */
struct msg_one {
    uint32_t later_usec; /* it was queued so much longer than the record says */
    uint32_t run_usec, cpu_usec;
    struct span output;
};

/* Takes the next item off an ARRAY's body. False: there is none, or it is malformed. [any] */
bool codec_next_item(struct span *body, struct msg_item *ret);
/* Writes what precedes an item's arguments and input. */
void codec_put_item(const struct msg_item *item, uint8_t ret[static CODEC_ITEM_SIZE]);
/* The same for the records of ENDS. A whole record is CODEC_END_SIZE plus the sizes of its spans, in their order. */
bool codec_next_end(struct span *body, struct msg_end *ret);
size_t codec_end_size(const struct msg_end *end);
/* Returns the end of what it wrote. If output.data is NULL, the caller puts the output there. */
uint8_t *codec_put_end(const struct msg_end *end, uint8_t *ret);
/* The same for the items of a record that covers several; they are in its output. Each is CODEC_ONE_SIZE plus the size
 * of its output. */
bool codec_next_one(struct span *ones, struct msg_one *ret);
uint8_t *codec_put_one(const struct msg_one *one, uint8_t *ret);

/* One bucket of a histogram in the body of FUNCTION_STATS. */
struct msg_bucket {
    uint32_t index;
    uint64_t n; /* not 0 */
};

bool codec_next_bucket(struct span *body, struct msg_bucket *ret);
void codec_put_bucket(const struct msg_bucket *bucket, uint8_t ret[static CODEC_BUCKET_SIZE]);

/* What is out of range, or NULL: in packed arguments; in the records of an ARRAY, ENDS or FUNCTION_STATS (other types
 * have none).
 * [any] */
const char *codec_args_problem(struct span args, uint32_t argc);
const char *codec_records_problem(const struct msg *msg, struct span body);
