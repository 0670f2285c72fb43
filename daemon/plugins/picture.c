/* SPDX-License-Identifier: Apache-2.0
 *
 * picture.c: room for pixels, turning, flattening.
 * Owns the pixels. Does not know formats. */
#include "picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "wsd/forms.h"

#define TRANSPOSED 5u /* the orientation that swaps rows and columns, and mirrors nothing */

#define TILE 32u /* rows and columns that are turned together */

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
    prefer_large_pages(picture->pixels, (size_t)width * height * channels);
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

/* A part of a row, as long as the columns that it comes from stay in the cache. */
static void turn_part(const struct picture *from, struct picture *to, uint32_t y, uint32_t begin, uint32_t end)
{
    const struct turn *turn = &turns[from->orientation];
    unsigned channels = from->channels;
    uint8_t *out = picture_row(to, y) + (size_t)begin * channels;

    for (uint32_t x = begin; x < end; x++, out += channels) {
        uint32_t column = turn->swap ? y : x, row = turn->swap ? x : y;

        column = turn->mirror ? from->width - 1 - column : column;
        row = turn->upside ? from->height - 1 - row : row;
        memcpy(out, picture_row(from, row) + (size_t)column * channels, channels);
    }
}

int picture_turned_init(struct picture *to, const struct picture *from)
{
    bool swap = turns[from->orientation].swap;
    int r = picture_init(to, swap ? from->height : from->width, swap ? from->width : from->height, from->channels);

    to->lossless = from->lossless;
    return r;
}

void picture_turn_rows(const struct picture *from, struct picture *to, uint32_t begin, uint32_t end)
{
    for (uint32_t left = 0; left < to->width; left += TILE)
        for (uint32_t y = begin; y < end; y++)
            turn_part(from, to, y, left, MIN(left + TILE, to->width));
}

struct turning {
    struct wsd_job *job;
    const struct picture *from;
    struct picture *to;
};

static int turn_tiles(struct wsd_worker *self, struct wsd_group *group, uint64_t begin, uint64_t end, void *arg)
{
    const struct turning *turning = arg;
    uint32_t height = turning->to->height;

    for (uint32_t top = (uint32_t)begin * TILE; top < MIN(end * TILE, height); top += TILE) {
        if (wsd_job_cancelled(turning->job))
            return -ECANCELED;
        picture_turn_rows(turning->from, turning->to, top, MIN(top + TILE, height));
    }
    return 0;
}

int picture_turn(struct wsd_worker *self, struct wsd_job *job, struct picture *picture)
{
    struct picture to;
    struct turning turning = {.job = job, .from = picture, .to = &to};
    int r;

    if (picture->orientation == 1)
        return 0;
    r = picture_turned_init(&to, picture);
    if (!r)
        r = wsd_for_each(self, NULL, 0, (to.height + TILE - 1) / TILE, 0, turn_tiles, &turning);
    SWAP(*picture, to);
    picture_deinit(&to);
    return r;
}

int picture_transpose(struct wsd_worker *self, struct wsd_job *job, struct picture *picture)
{
    struct picture before = *picture;
    int r;

    picture->orientation = TRANSPOSED;
    r = picture_turn(self, job, picture);
    picture->full_width = before.full_height;
    picture->full_height = before.full_width;
    picture->divisor = before.divisor;
    picture->orientation = before.orientation;
    return r;
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
