/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.h: pictures from the bytes of a format, and back. All calls [a task].
 * No codec has threads of its own, and none keeps anything between calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/coding.h"
#include "plugins/common.h"
#include "plugins/fit.h"
#include "plugins/picture.h"

struct codec {
    const char *name;         /* "jpeg" */
    unsigned quality_default; /* 0: the format loses nothing, and has no quality */
    uint32_t side_max;        /* of what it can encode, in pixels */
    bool alpha;               /* whether it can encode that */
    bool (*recognises)(const uint8_t *data, size_t size);
    /* Decodes a whole file. Where the box wants so few pixels that fit_divisor() allows it, a codec may decode fewer, which
     * is faster. Returns 0, -EBADMSG, -ENOMEM or -ECANCELED; ret is to be deinitialised in any case. */
    int (*decode)(struct coding *coding, const uint8_t *data, size_t size, const struct box *box, struct picture *ret);
    /* Encodes an upright picture. Quality is 1 to 100; 0: what the format and the picture's origin suggest. 0, -EBADMSG,
     * -ENOMEM or the output's error. */
    int (*encode)(struct coding *coding, const struct picture *picture, unsigned quality, struct output *output);
};

extern const struct codec codec_jpeg, codec_png, codec_webp;

/* By a name of the format; NULL: there is none of that name. */
const struct codec *codec_find(const char *name);

/* By the first bytes of a file; NULL: it is none of the formats. */
const struct codec *codec_recognise(const uint8_t *data, size_t size);
