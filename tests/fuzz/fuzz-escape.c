/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-escape.c: any bytes as text for a terminal.
 * Keeps: The output has no control characters but tabs, is UTF-8 of printable characters, and fits the room. Escaping
 * it again does not change it. The same holds for each shorter room. */
#include "fuzz.h"

#include <string.h>

#include "base/escape.h"

#define TEXT_MAX 256u

static void is_printable(const char *text, bool lines)
{
    uint32_t character;
    size_t n;

    for (const char *p = text; *p; p += n) {
        n = escape_character(p, &character);
        FUZZ_CHECK(n > 0);
        FUZZ_CHECK((lines && *p == '\n') || escape_printable(character));
        FUZZ_CHECK((unsigned char)*p >= ' ' || *p == '\t' || (lines && *p == '\n'));
        FUZZ_CHECK(*p != 0x7f && !(p[0] == (char)0xc2 && (unsigned char)p[1] < 0xa0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_MAX + 1], shown[TEXT_MAX * ESCAPE_ROOM], again[sizeof(shown)], *cut;
    size_t n, room;

    if (size < 1 || size > TEXT_MAX)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    n = escape_text(shown, sizeof(shown), text);
    FUZZ_CHECK(n == strlen(shown) && n >= strlen(text));
    is_printable(shown, false);
    FUZZ_CHECK(escape_text(again, sizeof(again), shown) == n && memcmp(shown, again, n + 1) == 0);

    room = (size_t)data[0] + 1; /* of the heap, so that a byte too many is seen */
    FUZZ_CHECK((cut = malloc(room)));
    n = escape_text(cut, room, text);
    FUZZ_CHECK(n < room && n == strlen(cut) && memcmp(cut, shown, n) == 0);
    is_printable(cut, false);
    free(cut);

    escape_lines(shown, sizeof(shown), text);
    is_printable(shown, true);
    return 0;
}
