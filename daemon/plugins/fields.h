/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.h: the fields of a line, as join cuts it. All calls [any].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FIELDS_BLANKS (-1) /* instead of a character: runs of blanks and tabs, not those in front of the line */
#define FIELDS_WHOLE  (-2) /* the line is one field */

struct field {
    const char *data;
    size_t size;
};

/* Where the next field is looked for. */
struct fields {
    const char *at, *end;
    int separator; /* a byte, or one of the above */
    bool more;
};

/* An empty line has no fields; nor has one of blanks only, by FIELDS_BLANKS. */
struct fields fields_begin(const char *line, size_t size, int separator);

/* The next field, which may be empty; false: there is none. */
bool fields_next(struct fields *fields, struct field *ret_field);

/* A field by its number, from 0; an empty one where there are fewer. */
struct field fields_at(const char *line, size_t size, int separator, size_t number);

/* The order of fields: memcmp(), a field before those that it begins. */
int field_compare(const struct field *a, const struct field *b);
