/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.c: which codec a picture needs.
 * Owns nothing. Does not know what is in a file beyond its first bytes. */
#include "codec.h"

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
