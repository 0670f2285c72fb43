/* SPDX-License-Identifier: Apache-2.0
 *
 * json-parse.h: JSON that was read (RFC 8259), with the place of each value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define JSON_DEPTH_MAX 16u
#define JSON_ERROR     160u

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
    enum json_type type;
    unsigned line, column;           /* from 1; columns are bytes */
    char *name;                      /* of a member of an object; else NULL */
    char *text;                      /* a string (UTF-8, without NUL), or a number or word as it stands there */
    struct json_value *first, *next; /* what is in it, in order */
};

/* Reads one value and nothing beside it. 0; -EINVAL with `LINE:COLUMN: what is wrong`; -ENOMEM. */
int json_parse(const char *data, size_t size, struct json_value **ret, char error[static JSON_ERROR]);
struct json_value *json_free(struct json_value *value); /* NULL is fine; returns NULL */
/* Whether the bytes are one object in ASCII, without control characters, and nothing beside it. 1, with *ret for the caller
 * to free; 0; or -ENOMEM. */
int json_read_object(const char *text, size_t size, struct json_value **ret);
