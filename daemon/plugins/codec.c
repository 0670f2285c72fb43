/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.c: which codec a picture needs, and what all of them say alike.
 * Owns nothing. Does not know what is in a file beyond its first bytes. */
#include "codec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static const struct codec *const codecs[] = {&codec_jpeg, &codec_png, &codec_webp};

const struct codec *codec_find(const char *name)
{
    if (strcmp(name, "jpg") == 0)
        return &codec_jpeg;
    for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
        if (strcmp(codecs[i]->name, name) == 0)
            return codecs[i];
    return NULL;
}

const struct codec *codec_recognise(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(codecs); i++)
        if (codecs[i]->recognises(data, size))
            return codecs[i];
    return NULL;
}

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
