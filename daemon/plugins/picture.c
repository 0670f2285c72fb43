/* SPDX-License-Identifier: Apache-2.0
 *
 * picture.c: room for pixels, turning, flattening.
 * Owns the pixels. Does not know formats. */
#include "picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

bool picture_fits(uint64_t width, uint64_t height)
{
    return width > 0 && height > 0 && width <= PICTURE_SIDE_MAX && height <= PICTURE_SIDE_MAX &&
           width * height <= PICTURE_PIXELS_MAX;
}

int picture_init(struct picture *picture, uint32_t width, uint32_t height, unsigned channels)
{
    *picture = (struct picture){.width = width,
                                .height = height,
                                .full_width = width,
                                .full_height = height,
                                .divisor = 1,
                                .channels = channels,
                                .orientation = 1};
    if (!picture_fits(width, height))
        return -EFBIG;
    picture->pixels = malloc((size_t)width * height * channels);
    return picture->pixels ? 0 : -ENOMEM;
}

void picture_deinit(struct picture *picture)
{
    free(picture->pixels);
    picture->pixels = NULL;
}

/* What each orientation does to a row and a column of the upright picture, to find the pixel that belongs there. */
static const struct turn {
    bool swap;           /* rows are columns */
    bool mirror, upside; /* of the stored picture, columns or rows count from the end */
} turns[] = {
    [1] = {false, false, false}, [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
    [5] = {true, false, false},  [6] = {true, false, true},  [7] = {true, true, true},  [8] = {true, true, false},
};

static void turn_row(const struct picture *from, struct picture *to, const struct turn *turn, uint32_t y)
{
    unsigned channels = from->channels;
    uint8_t *out = picture_row(to, y);

    for (uint32_t x = 0; x < to->width; x++, out += channels) {
        uint32_t column = turn->swap ? y : x, row = turn->swap ? x : y;

        column = turn->mirror ? from->width - 1 - column : column;
        row = turn->upside ? from->height - 1 - row : row;
        memcpy(out, picture_row(from, row) + (size_t)column * channels, channels);
    }
}

int picture_turn(struct picture *picture)
{
    const struct turn *turn = &turns[picture->orientation];
    struct picture to;
    int r;

    if (picture->orientation == 1)
        return 0;
    r = picture_init(&to, turn->swap ? picture->height : picture->width, turn->swap ? picture->width : picture->height,
                     picture->channels);
    if (r)
        return r;
    for (uint32_t y = 0; y < to.height; y++)
        turn_row(picture, &to, turn, y);
    to.lossless = picture->lossless;
    picture_deinit(picture);
    *picture = to;
    return 0;
}

void picture_flatten(struct picture *picture)
{
    size_t n = (size_t)picture->width * picture->height;
    const uint8_t *from = picture->pixels;
    uint8_t *to = picture->pixels;

    if (picture->channels != 4)
        return;
    for (; n; n--, from += 4, to += 3) {
        unsigned alpha = from[3], white = 255 * (255 - alpha) + 127;

        for (unsigned i = 0; i < 3; i++)
            to[i] = (uint8_t)((from[i] * alpha + white) / 255);
    }
    picture->channels = 3;
}
