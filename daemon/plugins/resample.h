/* SPDX-License-Identifier: Apache-2.0
 *
 * resample.h: other sizes of a picture, by the filter Lanczos with three lobes.
 */
#pragma once

#include <stdint.h>

#include "plugins/fit.h"
#include "plugins/picture.h"
#include "wsd/plugin.h"

/* What it takes to make the picture that the frame says, in multiplications of a pixel, by the cheaper order of rows and
 * columns. Of pictures and frames within limits it is at most RESAMPLE_WORK_MAX. [any] */
#define RESAMPLE_WORK_MAX (48ull * PICTURE_PIXELS_MAX)
uint64_t resample_work(const struct picture *picture, const struct frame *frame);

/* Makes the picture that the frame says of this one, rows in parallel. Samples are weighted as they are, without gamma, and
 * colours by their alpha. 0, -EFBIG, -ENOMEM or -ECANCELED; the picture is to be deinitialised in any case. [a task] */
int resample(struct wsd_worker *self, struct wsd_job *job, struct picture *picture, const struct frame *frame);
