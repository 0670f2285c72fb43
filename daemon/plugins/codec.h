/* SPDX-License-Identifier: Apache-2.0
 *
 * codec.h: pictures from the bytes of a format, and back. All calls [a task].
 * No codec has threads of its own, and none keeps anything between calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugins/common.h"
#include "plugins/fit.h"
#include "plugins/picture.h"
#include "wsd/plugin.h"

/* One call of a codec: who is asked whether to go on, and why it failed. */
struct coding {
    struct wsd_job *job;
    char error[192]; /* with -EBADMSG: one line that says what is wrong and what to do */
};

struct codec {
    const char *name;         /* "jpeg" */
    unsigned quality_default; /* 0: the format loses nothing, and has no quality */
    uint32_t side_max;        /* of what it can encode, in pixels */
    bool alpha;               /* whether it can encode that */
    bool (*recognises)(const uint8_t *data, size_t size);
    /* Decodes a whole file. Where the box wants so few pixels that fit_divisor() allows it, a codec may decode fewer, which
     * is faster. 0, -EBADMSG, -ENOMEM or -ECANCELED; ret is to be deinitialised in any case. */
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

/* Keeps the words, and returns -EBADMSG. */
__attribute__((format(printf, 2, 3))) int coding_fail(struct coding *coding, const char *format, ...);

/* Room for what a header claims. -EBADMSG where that is beyond the limits, or -ENOMEM. */
int coding_make_room(struct coding *coding, struct picture *picture, uint32_t width, uint32_t height,
                     unsigned channels);

/* Whether a header may claim this: 0 or -EBADMSG. */
int coding_check_size(struct coding *coding, uint32_t width, uint32_t height);
