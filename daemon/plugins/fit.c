/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c: sizes, with ImageMagick's rounding: to the nearest pixel, and never to none.
 * Owns nothing. Does not touch pixels. */
#include "fit.h"

#include "base/cleanup.h"

/* Pixels that are left for each one of the output, across: above 44 dB against the whole picture. */
#define OVERSAMPLING 2u

static uint64_t scaled(uint32_t side, double factor)
{
    return MAX((uint64_t)(side * factor + 0.5), 1);
}

static struct frame whole(uint64_t width, uint64_t height)
{
    return (struct frame){.whole_width = width,
                          .whole_height = height,
                          .width = (uint32_t)MIN(width, UINT32_MAX),
                          .height = (uint32_t)MIN(height, UINT32_MAX)};
}

static struct frame fit_upright(uint32_t width, uint32_t height, const struct box *box)
{
    double x = (double)box->width / width, y = (double)box->height / height, factor;
    bool open = !box->width || !box->height;
    struct frame frame;

    if ((open && x == y) || (box->shrink && width <= box->width && height <= box->height))
        return whole(width, height);
    if (!open && box->fit == FIT_FILL)
        return whole(box->width, box->height);
    factor = open || box->fit == FIT_COVER ? MAX(x, y) : MIN(x, y); /* an open side's is 0 */
    frame = whole(scaled(width, factor), scaled(height, factor));
    if (!open && box->fit == FIT_COVER) {
        frame.width = MIN(frame.width, box->width);
        frame.height = MIN(frame.height, box->height);
    }
    return frame;
}

struct frame fit_into(uint32_t width, uint32_t height, unsigned orientation, const struct box *box)
{
    struct box lying = *box;

    if (orientation >= 5)
        SWAP(lying.width, lying.height);
    return fit_upright(width, height, &lying);
}

unsigned fit_divisor(uint32_t width, uint32_t height, unsigned orientation, const struct box *box)
{
    struct frame frame = fit_into(width, height, orientation, box);
    unsigned divisor = 1;

    while (divisor < 8 && width / (2 * divisor) >= OVERSAMPLING * frame.whole_width &&
           height / (2 * divisor) >= OVERSAMPLING * frame.whole_height)
        divisor *= 2;
    return divisor;
}
