/* SPDX-License-Identifier: Apache-2.0
 *
 * exif.c: the tag Orientation of the first directory of EXIF's TIFF structure.
 * Owns nothing. Does not follow links to other directories. */
#include "exif.h"

#include <stdbool.h>
#include <string.h>

#define HEADER_SIZE     6u /* "Exif" and two NULs */
#define ENTRY_SIZE      12u
#define TAG_ORIENTATION 0x112u
#define TYPE_SHORT      3u
#define SEGMENTS_MAX    1000u /* of a JPEG, that are looked at */
#define APP1            0xe1u
#define SCAN            0xdau /* what is behind this are pixels */

struct tiff {
    const uint8_t *data;
    size_t size;
    bool little; /* least byte first */
};

/* The n bytes at this place as a number; 0 where there are less. */
static uint32_t number_at(const struct tiff *tiff, size_t at, size_t n)
{
    uint32_t number = 0;

    if (at > tiff->size || tiff->size - at < n)
        return 0;
    for (size_t i = 0; i < n; i++)
        number = number << 8 | tiff->data[at + (tiff->little ? n - 1 - i : i)];
    return number;
}

static unsigned find_orientation(const struct tiff *tiff)
{
    size_t directory = number_at(tiff, 4, 4);
    uint32_t n = number_at(tiff, directory, 2);

    for (uint32_t i = 0; i < n; i++) {
        size_t entry = directory + 2 + (size_t)i * ENTRY_SIZE;

        if (entry > tiff->size || tiff->size - entry < ENTRY_SIZE)
            break;
        if (number_at(tiff, entry, 2) == TAG_ORIENTATION && number_at(tiff, entry + 2, 2) == TYPE_SHORT)
            return number_at(tiff, entry + 8, 2);
    }
    return 1;
}

unsigned exif_orientation(const uint8_t *data, size_t size)
{
    struct tiff tiff;
    unsigned orientation;

    if (size < HEADER_SIZE + 8 || memcmp(data, "Exif\0", HEADER_SIZE) != 0)
        return 1;
    tiff = (struct tiff){.data = data + HEADER_SIZE, .size = size - HEADER_SIZE, .little = data[HEADER_SIZE] == 'I'};
    if (number_at(&tiff, 0, 2) != (tiff.little ? 0x4949u : 0x4d4du) || number_at(&tiff, 2, 2) != 42)
        return 1;
    orientation = find_orientation(&tiff);
    return orientation >= 1 && orientation <= 8 ? orientation : 1;
}

unsigned exif_of_jpeg(const uint8_t *data, size_t size)
{
    size_t at = 2; /* behind the marker of the beginning */

    for (unsigned i = 0; i < SEGMENTS_MAX && at < size && size - at >= 4; i++) {
        size_t length = (size_t)data[at + 2] << 8 | data[at + 3];

        if (data[at] != 0xff || data[at + 1] == SCAN || length < 2 || length > size - at - 2)
            break;
        if (data[at + 1] == APP1 && length >= 2 + HEADER_SIZE && memcmp(data + at + 4, "Exif\0", HEADER_SIZE) == 0)
            return exif_orientation(data + at + 4, length - 2);
        at += 2 + length;
    }
    return 1;
}
