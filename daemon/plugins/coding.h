/* SPDX-License-Identifier: Apache-2.0
 *
 * coding.h: a call of a codec. Embedded. [one task at a time]
 */
#pragma once

#include <stdint.h>

#include "plugins/picture.h"
#include "wsd/plugin.h"

/* One call of a codec: the job that is asked whether to go on, and why it failed. */
struct coding {
    struct wsd_job *job;
    char error[192]; /* with -EBADMSG: one line that says what is wrong and what to do */
};

/* Keeps the words, and returns -EBADMSG. */
__attribute__((format(printf, 2, 3))) int coding_fail(struct coding *coding, const char *format, ...);

/* Room for what a header claims. -EBADMSG where that is beyond the limits, or -ENOMEM. */
int coding_make_room(struct coding *coding, struct picture *picture, uint32_t width, uint32_t height,
                     unsigned channels);

/* Whether a header may claim this: 0 or -EBADMSG. */
int coding_check_size(struct coding *coding, uint32_t width, uint32_t height);
