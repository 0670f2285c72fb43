/* SPDX-License-Identifier: Apache-2.0
 *
 * fit.h: which size a picture gets. [any]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fit {
    FIT_INSIDE, /* as large as fits into the box, with its ratio */
    FIT_COVER,  /* covers the box, with its ratio; what stands out on two sides is cut off */
    FIT_FILL,   /* exactly the box */
};

/* Sizes before and after the cut: the window is the middle of the whole. */
struct frame {
    uint64_t whole_width, whole_height;
    uint32_t width, height;
};

/* Frames a picture of width x height, each at least 1, for a box. A side of 0 is left open: the ratio gives it. Whether
 * the frame is within limits is for the caller to see. */
struct frame fit_into(uint32_t width, uint32_t height, uint32_t box_width, uint32_t box_height, enum fit fit);
