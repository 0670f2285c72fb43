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

/* Where an upright picture has to go. A side of 0 is left open: the ratio gives it. */
struct box {
    uint32_t width, height;
    enum fit fit;
    bool shrink; /* a picture that fits into it stays as it is */
};

/* Sizes before and after the cut: the window is the middle of the whole. */
struct frame {
    uint64_t whole_width, whole_height;
    uint32_t width, height;
};

/* Frames a picture of width x height, each at least 1, as it lies: from an orientation of 5 on, as EXIF counts, it stands
 * upright on its side. A box without a side takes every picture as it is. Whether the frame is within limits is for the
 * caller to see. */
struct frame fit_into(uint32_t width, uint32_t height, unsigned orientation, const struct box *box);

/* Returns by how much such a picture may be divided while it is decoded, 1, 2, 4 or 8. Enough pixels are left for the
 * frame to lose nothing that is seen. */
unsigned fit_divisor(uint32_t width, uint32_t height, unsigned orientation, const struct box *box);
