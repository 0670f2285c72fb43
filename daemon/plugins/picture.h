/* SPDX-License-Identifier: Apache-2.0
 *
 * picture.h: a picture in memory, 8 bits a sample, and its limits. Embedded. [one task at a time]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wsd/plugin.h"

/* Checked before anything is allocated: a header may claim any size. */
#define PICTURE_SIDE_MAX   65535u
#define PICTURE_PIXELS_MAX (128u << 20)

struct picture {
    uint32_t width, height;
    uint32_t full_width, full_height; /* in the file, of which a decoder may have made less: */
    unsigned divisor;                 /* a pixel here is so many of those across; the last one may be less */
    unsigned channels;                /* 1: grey; 3: RGB; 4: RGB and alpha, not multiplied with it */
    unsigned orientation;             /* 1 to 8, as EXIF counts: how it has to be turned; 1: not at all */
    bool lossless;                    /* comes from a format that loses nothing */
    uint8_t *pixels;                  /* rows from the top, without gaps */
};

/* Whether a picture may have this size. */
bool picture_fits(uint64_t width, uint64_t height);

/* Makes room for a picture that lies upright. 0; -EFBIG where picture_fits() is false; -ENOMEM. */
int picture_init(struct picture *picture, uint32_t width, uint32_t height, unsigned channels);

void picture_deinit(struct picture *picture);
static inline void picture_deinitp(struct picture *picture)
{
    picture_deinit(picture);
}

static inline size_t picture_stride(const struct picture *picture)
{
    return (size_t)picture->width * picture->channels;
}
static inline uint8_t *picture_row(const struct picture *picture, uint32_t y)
{
    return picture->pixels + y * picture_stride(picture);
}

/* Room for the picture that lies upright, as picture_init(). */
int picture_turned_init(struct picture *to, const struct picture *from);
/* Fills rows of it. [any task, each other rows] */
void picture_turn_rows(const struct picture *from, struct picture *to, uint32_t begin, uint32_t end);
/* Turns it as its orientation says, and sets that to 1. 0, -ENOMEM or -ECANCELED. */
int picture_turn(struct wsd_worker *self, struct wsd_job *job, struct picture *picture);
/* Swaps rows and columns; twice is nothing. How it has to be turned stays as it was told. 0, -ENOMEM or -ECANCELED. */
int picture_transpose(struct wsd_worker *self, struct wsd_job *job, struct picture *picture);

/* Lays a picture with alpha on white: 3 channels are left. */
void picture_flatten(struct picture *picture);
