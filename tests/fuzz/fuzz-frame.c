/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-frame.c: any stream of bytes through frame_parse().
 * Keeps: What is found does not depend on how the stream was cut. Frames lie inside the bytes. An answer for a prefix
 * (an error, or how much is missing) holds for every stream that begins with it. */
#include "fuzz.h"

#include <string.h>

#include "proto/frame.h"

/* A longer look at the same bytes must agree with a shorter one. */
static void check_prefixes(const uint8_t *data, size_t size, int answer, size_t used)
{
    static const size_t cuts[] = {0, 1, 2, 8, 11, 12, 15, 16, 17};

    for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts) && cuts[i] < size; i++) {
        struct frame frame;
        size_t n = 0;
        int r = frame_parse(data, cuts[i], &frame, &n);

        if (r == 0)
            FUZZ_CHECK(answer == 0 && n == used);
        else if (r == FRAME_MORE)
            FUZZ_CHECK(n > cuts[i] && n <= FRAME_MAX && (answer != 0 || n <= used));
        else
            FUZZ_CHECK(answer == r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0;

    for (;;) {
        struct frame frame;
        size_t n = 0;
        int r = frame_parse(data + at, size - at, &frame, &n);

        check_prefixes(data + at, size - at, r, n);
        if (r != 0) {
            FUZZ_CHECK(r == FRAME_MORE ? n > size - at && n <= FRAME_MAX : r <= FRAME_E_TOO_LARGE);
            return 0;
        }
        FUZZ_CHECK(n >= FRAME_HEADER_SIZE && n <= FRAME_MAX && n <= size - at);
        FUZZ_CHECK(frame.header == data + at + FRAME_HEADER_SIZE && frame.body == frame.header + frame.header_size);
        FUZZ_CHECK(frame.body + frame.body_size == data + at + n);

        uint8_t header[FRAME_HEADER_SIZE];

        frame_put_header(header, frame.type, frame.tag, frame.header_size, frame.body_size);
        FUZZ_CHECK(memcmp(header, data + at, sizeof(header)) == 0);
        at += n;
    }
}
