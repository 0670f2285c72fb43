/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.c: cutting a line into fields. Owns nothing; does not look behind the line's end. */
#include "plugins/fields.h"

#include <string.h>

#include "base/cleanup.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct fields fields_begin(const char *line, size_t size, int separator)
{
    struct fields fields = {.at = line, .end = line + size, .separator = separator};

    if (separator == FIELDS_BLANKS)
        while (fields.at < fields.end && is_blank(*fields.at))
            fields.at++;
    fields.more = fields.at < fields.end;
    return fields;
}

/* The end of the field that begins at `at`. */
static const char *field_end(const struct fields *fields)
{
    const char *at = fields->at;

    if (fields->separator == FIELDS_WHOLE)
        return fields->end;
    if (fields->separator != FIELDS_BLANKS) {
        at = memchr(at, fields->separator, (size_t)(fields->end - at));
        return at ? at : fields->end;
    }
    while (at < fields->end && !is_blank(*at))
        at++;
    return at;
}

bool fields_next(struct fields *fields, struct field *ret_field)
{
    const char *end;

    if (!fields->more)
        return false;
    end = field_end(fields);
    *ret_field = (struct field){.data = fields->at, .size = (size_t)(end - fields->at)};
    /* What ends with a separator has an empty field behind it. */
    fields->more = end < fields->end;
    if (!fields->more)
        return true;
    fields->at = end + 1;
    if (fields->separator == FIELDS_BLANKS)
        while (fields->at < fields->end && is_blank(*fields->at))
            fields->at++;
    return true;
}

struct field fields_at(const char *line, size_t size, int separator, size_t number)
{
    struct fields fields = fields_begin(line, size, separator);
    struct field field;

    while (fields_next(&fields, &field))
        if (number-- == 0)
            return field;
    return (struct field){.data = line + size};
}

int field_compare(const struct field *a, const struct field *b)
{
    int r = memcmp(a->data, b->data, MIN(a->size, b->size));

    return r ? r : (a->size > b->size) - (a->size < b->size);
}
