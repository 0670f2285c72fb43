/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-letter.c: any bytes as a message of the fleet. They are taken for a job, an end, many of each, what a job says
 * while it runs, the subject of an answer, the id of a message.
 * Keeps: what is refused has words. What is taken for a job or an end, and written again, is taken again and says the
 * same. A subject that is made of it has no more than its five parts. */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fleet/letter.h"

static struct codec *codec;

static bool is_same(struct span a, const char *text, size_t size)
{
    return a.size == size && (size == 0 || memcmp(a.data, text, size) == 0);
}

static void job(const uint8_t *data, size_t size)
{
    struct letter_job first = {0}, second = {0};
    struct buffer again = {0};
    char why[160] = "", node[LETTER_NAME], name[CODEC_PLACE_MAX], subject[LETTER_SUBJECT];
    char user[CODEC_TEXT_MAX] = "";
    int r = letter_get_job(codec, data, size, &first, why);

    FUZZ_CHECK(r == 0 || (r == -EBADMSG && *why));
    if (r == 0) {
        uint32_t argc = first.run.job.argc;
        size_t n_input = buffer_size(&first.input);
        size_t parts = 1;

        snprintf(node, sizeof(node), "%.*s", (int)first.run.directory.size, first.run.directory.data);
        FUZZ_CHECK(letter_is_name(node, strlen(node), LETTER_NAME));
        snprintf(name, sizeof(name), "%.*s", (int)first.run.job.function.size, first.run.job.function.data);
        snprintf(user, sizeof(user), "%s", first.run.user.data);
        if (letter_job_subject(subject, name, first.run.job.priority)) {
            for (const char *c = subject; *c; c++)
                parts += *c == '.';
            FUZZ_CHECK(parts == 5 && !strpbrk(subject, " *>\t\r\n"));
        }
        FUZZ_CHECK(first.seal.size <= LETTER_INPUT_MAX && (first.seal.size == 0 || n_input == 0));
        r = first.seal.size ? letter_put_sealed_job(&again, node, &first.run, &first.seal)
                            : letter_put_job(&again, node, &first.run, buffer_data(&first.input), n_input);
        FUZZ_CHECK(r == 0 || r == -E2BIG);
        if (r == 0) {
            FUZZ_CHECK(letter_get_job(codec, buffer_data(&again), buffer_size(&again), &second, why) == 0);
            FUZZ_CHECK(memcmp(&first.seal, &second.seal, sizeof(first.seal)) == 0);
            FUZZ_CHECK(second.run.job.argc == argc && buffer_size(&second.input) == n_input);
            FUZZ_CHECK(is_same(second.run.job.function, name, strlen(name)));
            FUZZ_CHECK(is_same(second.run.user, user, strlen(user)));
            FUZZ_CHECK(n_input == 0 || memcmp(buffer_data(&first.input), buffer_data(&second.input), n_input) == 0);
        }
    }
    buffer_deinit(&first.input);
    buffer_deinit(&second.input);
    buffer_deinit(&again);
}

static void live(const uint8_t *data, size_t size)
{
    struct span rest = {(const char *)data, size};
    struct buffer again = {0};
    char why[160] = "", text[CODEC_TEXT_MAX];
    struct msg m;
    int r = 0;

    while (rest.size > 0 && (r = live_get(codec, &rest, &m, why)) == 0) {
        buffer_drop(&again, buffer_size(&again));
        if (m.type == FRAME_RUN_PROGRESS) {
            r = live_put_progress(&again, (uint32_t)m.run_progress.run, m.run_progress.done, m.run_progress.total);
        } else {
            FUZZ_CHECK(m.type == FRAME_RUN_MESSAGE && m.run_message.text.size < sizeof(text));
            snprintf(text, sizeof(text), "%.*s", (int)m.run_message.text.size, m.run_message.text.data);
            r = live_put_message(&again, (uint32_t)m.run_message.run, m.run_message.level, text);
        }
        FUZZ_CHECK(r == 0 && buffer_size(&again) <= LIVE_MAX);
        r = 0;
    }
    FUZZ_CHECK(r == 0 || (r == -EBADMSG && *why));
    buffer_deinit(&again);
}

static void end(const uint8_t *data, size_t size)
{
    struct letter_end first = {0}, second = {0};
    struct buffer again = {0};
    char why[160] = "";
    int r = letter_get_end(codec, data, size, &first, why);

    FUZZ_CHECK(r == 0 || (r == -EBADMSG && *why));
    if (r == 0) {
        uint32_t status = first.end.status;
        size_t n = buffer_size(&first.output);

        FUZZ_CHECK(first.seal.size <= LETTER_OUTPUT_MAX && (first.seal.size == 0 || n == 0));
        r = first.seal.size ? letter_put_output_seal(&again, &first.seal) : 0;
        if (r == 0)
            r = letter_put_end(&again, &first.end, buffer_data(&first.output), n);
        FUZZ_CHECK(r == 0 || r == -E2BIG);
        if (r == 0) {
            FUZZ_CHECK(letter_get_end(codec, buffer_data(&again), buffer_size(&again), &second, why) == 0);
            FUZZ_CHECK(memcmp(&first.seal, &second.seal, sizeof(first.seal)) == 0);
            FUZZ_CHECK(second.end.status == status && buffer_size(&second.output) == n);
        }
    }
    buffer_deinit(&first.output);
    buffer_deinit(&second.output);
    buffer_deinit(&again);
}

/* Those of a parcel, up to the first that is refused. What was taken has the same beginning when it is put again. */
static void parcel(const uint8_t *data, size_t size)
{
    struct span jobs = {(const char *)data, size}, ends = jobs;
    struct buffer again = {0};
    char why[160] = "", node[LETTER_NAME];
    int r = 0;

    while (r == 0 && jobs.size > 0) {
        struct letter_job one = {0};
        size_t before = jobs.size;

        r = parcel_get_job(codec, &jobs, &one, why);
        FUZZ_CHECK((r == 0 && jobs.size < before && one.seal.size == 0) || (r == -EBADMSG && *why));
        if (r == 0) {
            snprintf(node, sizeof(node), "%.*s", (int)one.run.directory.size, one.run.directory.data);
            size_t had = buffer_size(&again);
            int put = parcel_put_job(&again, node, &one.run, buffer_data(&one.input), buffer_size(&one.input));
            FUZZ_CHECK(put == 0 || (put == -E2BIG && buffer_size(&again) == had));
        }
        buffer_deinit(&one.input);
    }
    buffer_drop(&again, buffer_size(&again));
    for (r = 0; r == 0 && ends.size > 0;) {
        struct letter_end one = {0}, second = {0};
        size_t before = ends.size, had = buffer_size(&again);

        r = parcel_get_end(codec, &ends, &one, why);
        FUZZ_CHECK((r == 0 && ends.size < before && one.seal.size == 0) || (r == -EBADMSG && *why));
        if (r == 0 && parcel_put_end(&again, &one.end, buffer_data(&one.output), buffer_size(&one.output)) == 0) {
            struct span put = {(const char *)buffer_data(&again) + had, buffer_size(&again) - had};
            uint64_t run = one.end.run;

            FUZZ_CHECK(parcel_get_end(codec, &put, &second, why) == 0 && put.size == 0);
            FUZZ_CHECK(second.end.run == run && buffer_size(&second.output) == buffer_size(&one.output));
        }
        buffer_deinit(&one.output);
        buffer_deinit(&second.output);
    }
    buffer_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct letter_receipt receipt;
    char text[512], id[LETTER_ID];
    uint32_t attempt;

    if (!codec)
        FUZZ_CHECK(codec_new(&codec) == 0);
    job(data, size);
    end(data, size);
    live(data, size);
    parcel(data, size);
    snprintf(text, sizeof(text), "%.*s", (int)(size < sizeof(text) ? size : sizeof(text) - 1), (const char *)data);
    if (letter_get_receipt(text, &receipt))
        FUZZ_CHECK(strlen(receipt.consumer) < sizeof(receipt.consumer));
    if (letter_get_parcel_id(text, id))
        FUZZ_CHECK(letter_is_name(id, strlen(id), LETTER_ID));
    if (letter_get_sent(text, id, &attempt))
        FUZZ_CHECK(letter_is_name(id, strlen(id), LETTER_ID));
    return 0;
}
