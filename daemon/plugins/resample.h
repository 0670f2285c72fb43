/* SPDX-License-Identifier: Apache-2.0
 *
 * resample.h: other sizes of a picture, by the filter Lanczos with three lobes.
 */
#pragma once

#include "plugins/fit.h"
#include "plugins/picture.h"
#include "wsd/plugin.h"

/* Makes the picture that the frame says, rows in parallel. Samples are weighted as they are, without gamma, and colours
 * by their alpha. 0, -EFBIG, -ENOMEM or -ECANCELED; ret is to be deinitialised in any case. [a task] */
int resample(struct wsd_worker *self, struct wsd_job *job, const struct picture *picture, const struct frame *frame,
             struct picture *ret);
