/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-join.c: any bytes as a separator and a line of `text:join`.
 * Keeps: fields lie in the line, in order, without their separator, and nothing but separators lies between them; a field
 * by its number is the same one. */
#include "fuzz.h"

#include <string.h>

#include "plugins/fields.h"

static bool separates(int separator, char c)
{
    if (separator == FIELDS_BLANKS)
        return c == ' ' || c == '\t';
    return separator != FIELDS_WHOLE && c == (char)separator;
}

static bool only_separators(int separator, const char *begin, const char *end)
{
    while (begin < end)
        if (!separates(separator, *begin++))
            return false;
    return true;
}

static void check_field(const char *line, size_t size, int separator, size_t number, const struct field *field)
{
    struct field same = fields_at(line, size, separator, number);

    for (size_t i = 0; i < field->size; i++)
        FUZZ_CHECK(!separates(separator, field->data[i]));
    FUZZ_CHECK(same.data == field->data && same.size == field->size);
    FUZZ_CHECK(field_compare(field, &same) == 0);
}

static void check_line(const char *line, size_t size, int separator)
{
    struct fields fields = fields_begin(line, size, separator);
    const char *at = line, *end = line + size;
    struct field field;
    size_t n = 0;

    for (; fields_next(&fields, &field); n++) {
        FUZZ_CHECK(field.data >= at && field.size <= (size_t)(end - field.data));
        FUZZ_CHECK(only_separators(separator, at, field.data));
        FUZZ_CHECK(n == 0 || field.data > at);
        check_field(line, size, separator, n, &field);
        at = field.data + field.size;
    }
    FUZZ_CHECK(n == 0 ? only_separators(FIELDS_BLANKS, line, end) : at == end);
    FUZZ_CHECK(n > 0 || size == 0 || separator == FIELDS_BLANKS);
    FUZZ_CHECK(fields_at(line, size, separator, n).size == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int kinds[] = {FIELDS_BLANKS, FIELDS_WHOLE};
    char line[512];

    if (size < 2 || size - 2 > sizeof(line))
        return 0;
    memcpy(line, data + 2, size - 2);
    check_line(line, size - 2, data[0] % 4 < 2 ? kinds[data[0] % 4] : data[1]);
    return 0;
}
