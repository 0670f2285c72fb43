/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.c: sizes, with ImageMagick's rounding: to the nearest pixel, and never to none.
 * Owns nothing. Does not touch pixels. */
#include "fit.h"

#include "base/cleanup.h"

static uint64_t scaled(uint32_t side, double factor)
{
    return MAX((uint64_t)(side * factor + 0.5), 1);
}

struct frame fit_into(uint32_t width, uint32_t height, uint32_t box_width, uint32_t box_height, enum fit fit)
{
    double x = (double)box_width / width, y = (double)box_height / height, factor;
    struct frame frame;

    if (!box_width || !box_height)
        factor = MAX(x, y); /* the other one is 0 */
    else if (fit == FIT_FILL)
        return (struct frame){box_width, box_height, box_width, box_height};
    else
        factor = fit == FIT_COVER ? MAX(x, y) : MIN(x, y);
    frame.whole_width = scaled(width, factor);
    frame.whole_height = scaled(height, factor);
    frame.width = (uint32_t)MIN(frame.whole_width, UINT32_MAX);
    frame.height = (uint32_t)MIN(frame.whole_height, UINT32_MAX);
    if (fit == FIT_COVER && box_width && box_height) {
        frame.width = (uint32_t)MIN(frame.whole_width, box_width);
        frame.height = (uint32_t)MIN(frame.whole_height, box_height);
    }
    return frame;
}
