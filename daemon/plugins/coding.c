/* SPDX-License-Identifier: Apache-2.0
 *
 * coding.c: what all codecs say alike, and the limits that they keep.
 * Owns nothing. Does not know formats. */
#include "coding.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int coding_fail(struct coding *coding, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(coding->error, sizeof(coding->error), format, args);
    va_end(args);
    return -EBADMSG;
}

int coding_check_size(struct coding *coding, uint32_t width, uint32_t height)
{
    if (picture_fits(width, height))
        return 0;
    return coding_fail(coding, "%u x %u pixels; at most %u a side and %u altogether are taken: cut it into parts first",
                       width, height, PICTURE_SIDE_MAX, PICTURE_PIXELS_MAX);
}

int coding_make_room(struct coding *coding, struct picture *picture, uint32_t width, uint32_t height, unsigned channels)
{
    int r = coding_check_size(coding, width, height);

    return r ? r : picture_init(picture, width, height, channels);
}
