/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-calendar.c: any text as a calendar expression, and any bytes as the file of a zone.
 * Keeps: what is taken comes later than what was asked for, the same each time, and later ones later; a zone that is
 * taken goes there and back. */
#include "fuzz.h"

#include <string.h>

#include "calendar/calendar.h"
#include "calendar/zone.h"

static void zone(const uint8_t *data, size_t size)
{
    static const int64_t times[] = {-2000000000, 0, 1774745999, 1774746000, 1792890000, 4102444800};
    struct zone *z;
    int64_t found[2], next;

    if (zone_read(&z, data, size) < 0)
        return;
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        int n = zone_find(z, zone_local(z, times[i]), found, &next);

        FUZZ_CHECK(n >= 0 && n <= 2 && (n < 2 || found[0] < found[1]));
    }
    zone_free(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct calendar *c = NULL;
    char text[CALENDAR_MAX + 8];
    uint64_t at = 1774735200000000u, again;

    if (size >= 4 && memcmp(data, "TZif", 4) == 0)
        zone(data, size);
    if (size >= sizeof(text))
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (calendar_parse(&c, text) < 0)
        return 0;
    FUZZ_CHECK(strlen(text) < CALENDAR_MAX);
    for (int i = 0; i < 3; i++) {
        uint64_t next;

        if (calendar_next(c, at, &next) < 0)
            break;
        FUZZ_CHECK(next > at && calendar_next(c, next - 1, &again) == 0 && again == next);
        at = next;
    }
    calendar_free(c);
    return 0;
}
