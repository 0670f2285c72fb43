/* SPDX-License-Identifier: Apache-2.0
 *
 * test-corpus.c: the codec's kept fuzz inputs have a whole message of every type. A new type without one is an error,
 * since mutations of other types hardly ever reach it. Inputs are as in fuzz-codec.c. */
#include "base/cleanup.h"
#include "proto/codec.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static bool has_records(uint16_t type)
{
    return type == FRAME_ARRAY || type == FRAME_ENDS || type == FRAME_FUNCTION_STATS;
}

static bool decodes(struct codec *codec, const uint8_t *data, size_t size, bool *ret_records)
{
    uint32_t rest = (uint32_t)size - 2;
    struct frame frame = {.type = data[0], .tag = 1, .header_size = rest, .header = data + 2};
    struct msg msg;

    frame.body_size = MIN((uint32_t)data[1] << 8, FRAME_PAYLOAD_MAX - rest);
    if (has_records(frame.type)) {
        frame.header_size = MIN((uint32_t)data[1], rest);
        frame.body = data + 2 + frame.header_size;
        frame.body_size = rest - frame.header_size;
    }
    *ret_records = frame.body_size > 0;
    return codec_decode(codec, &frame, &msg) == 0;
}

START_TEST(every_type_is_in_the_corpus)
{
    static uint8_t data[FRAME_MAX];
    bool seen[256] = {false}, records;
    struct codec *codec;
    struct dirent *entry;
    DIR *dir = opendir(CODEC_CORPUS);
    char path[4096];

    ck_assert_ptr_nonnull(dir);
    ck_assert_int_eq(codec_new(&codec), 0);
    while ((entry = readdir(dir))) {
        size_t size;
        FILE *file;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", CODEC_CORPUS, entry->d_name);
        file = fopen(path, "re");
        ck_assert_ptr_nonnull(file);
        size = fread(data, 1, sizeof(data), file);
        fclose(file);
        if (size < 2 || !decodes(codec, data, size, &records))
            continue;
        /* of these an empty one says nothing about what is in it */
        seen[data[0]] |= records || !has_records(data[0]);
    }
    closedir(dir);
    codec_free(codec);
    for (uint16_t type = 0; type < 256; type++)
        ck_assert_msg(seen[type] || strcmp(codec_type_name(type), "?") == 0, "no %s in %s", codec_type_name(type),
                      CODEC_CORPUS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus");
    TCase *tests = tcase_create("corpus");

    tcase_add_test(tests, every_type_is_in_the_corpus);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
