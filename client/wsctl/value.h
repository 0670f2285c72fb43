/* SPDX-License-Identifier: Apache-2.0
 *
 * value.h: JSON that was read (RFC 8259), with the place of each value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define VALUE_DEPTH_MAX 16u
#define VALUE_ERROR     160u

enum value_type { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_STRING, VALUE_ARRAY, VALUE_OBJECT };

struct value {
    enum value_type type;
    unsigned line, column;      /* from 1; columns are bytes */
    char *name;                 /* of a member of an object; else NULL */
    char *text;                 /* a string (UTF-8, without NUL), or a number or word as it stands there */
    struct value *first, *next; /* what is in it, in order */
};

/* Reads one value and nothing beside it. 0; -EINVAL with `LINE:COLUMN: what is wrong`; -ENOMEM. */
int value_parse(const char *data, size_t size, struct value **ret, char error[static VALUE_ERROR]);
struct value *value_free(struct value *value); /* NULL is fine; returns NULL */
