/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-image.c: any bytes as a picture, by the codec that takes them, and by the parser of EXIF.
 * Keeps: a picture has the size that its header claims, or that by a divisor of a JPEG's. It is within limits, and its
 * last byte is there. What fails has words. Larger pictures than a test can wait for are refused here. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "plugins/codec.h"
#include "plugins/exif.h"

#define ROUNDS_MAX 2000u /* questions whether the job is cancelled: a picture of many rows is left there */

static unsigned rounds;

static bool cancelled(struct wsd_job *job)
{
    return ++rounds > ROUNDS_MAX;
}

static void check_picture(const struct picture *picture)
{
    FUZZ_CHECK(picture_fits(picture->full_width, picture->full_height));
    FUZZ_CHECK(picture->width <= picture->full_width && picture->height <= picture->full_height);
    FUZZ_CHECK(picture->channels == 1 || picture->channels == 3 || picture->channels == 4);
    FUZZ_CHECK(picture->orientation >= 1 && picture->orientation <= 8);
    /* what is read of it shows a sanitizer whether it is there */
    FUZZ_CHECK(picture_row(picture, picture->height - 1)[picture_stride(picture) - 1] <= 255);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct wsd_job_ops ops = {.size = sizeof(ops), .cancelled = cancelled};
    static const struct box boxes[] = {{.width = 0}, {.width = 9, .height = 9, .shrink = true}};
    const struct codec *codec = codec_recognise(data, size);
    struct wsd_job job = {.size = sizeof(job), .ops = &ops};
    unsigned orientation = exif_orientation(data, size);

    FUZZ_CHECK(orientation >= 1 && orientation <= 8);
    for (size_t i = 0; codec && i < 2; i++) {
        struct coding coding = {.job = &job};
        struct picture picture;
        int r;

        rounds = 0;
        r = codec->decode(&coding, data, size, &boxes[i], &picture);
        FUZZ_CHECK(r == 0 || r == -EBADMSG || r == -ENOMEM || r == -ECANCELED);
        FUZZ_CHECK((r == -EBADMSG) == (coding.error[0] != '\0'));
        if (!r)
            check_picture(&picture);
        picture_deinit(&picture);
    }
    return 0;
}
