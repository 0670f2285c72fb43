/* SPDX-License-Identifier: Apache-2.0
 *
 * test-blocks.c: blocks of whole lines, of a file and of an input in memory: below, at and above the size of a block. */
#include "plugins/blocks.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool is_cancelled;

static bool cancelled(struct wsd_job *job)
{
    return is_cancelled;
}

static const struct wsd_job_ops ops = {.size = sizeof(ops), .cancelled = cancelled};
static struct wsd_job job = {.size = sizeof(job), .ops = &ops};

static struct source source_of(const char *text, size_t size, bool file)
{
    struct source source = {.job = &job, .fd = -1, .data = (const uint8_t *)text, .size = size};

    if (!file)
        return source;
    source.fd = memfd_create("text", MFD_CLOEXEC);
    ck_assert_int_ge(source.fd, 0);
    ck_assert_int_eq(write(source.fd, text, size), (ssize_t)size);
    ck_assert_int_eq(lseek(source.fd, 0, SEEK_SET), 0);
    return source;
}

/* Reads all blocks: they are the text, and each but the last ends with a newline. Returns how many there are. */
static size_t check_blocks(const char *text, size_t size, bool file)
{
    struct block_reader reader = {.source = source_of(text, size, file)};
    struct block block = {.data = NULL};
    size_t at = 0, n = 0;

    for (;; n++) {
        ck_assert_int_eq(block_read(&reader, &block), 0);
        if (!block.size)
            break;
        ck_assert_uint_le(block.size, size - at);
        ck_assert_mem_eq(block.data, text + at, block.size);
        at += block.size;
        ck_assert(at == size || text[at - 1] == '\n');
    }
    ck_assert_uint_eq(at, size);
    block_deinit(&block);
    block_reader_deinit(&reader);
    return n;
}

/* A text of one byte, with newlines at these places. */
static char *text_of(size_t size, size_t newline, size_t another)
{
    char *text = malloc(size + 1);

    ck_assert_ptr_nonnull(text);
    memset(text, 'x', size);
    if (newline < size)
        text[newline] = '\n';
    if (another < size)
        text[another] = '\n';
    return text;
}

START_TEST(no_text_has_no_block)
{
    ck_assert_uint_eq(check_blocks("", 0, true), 0);
    ck_assert_uint_eq(check_blocks("", 0, false), 0);
}
END_TEST

START_TEST(lines_are_whole_around_the_size_of_a_block)
{
    for (size_t size = BLOCK_SIZE - 2; size <= BLOCK_SIZE + 2; size++) {
        for (size_t newline = BLOCK_SIZE - 3; newline <= BLOCK_SIZE + 2; newline++) {
            _cleanup_(freep) char *text = text_of(size, 100, newline);

            ck_assert_uint_le(check_blocks(text, size, true), 2);
            ck_assert_uint_le(check_blocks(text, size, false), 2);
        }
    }
}
END_TEST

START_TEST(a_line_longer_than_a_block_is_whole)
{
    size_t size = 5 * BLOCK_SIZE + 7;
    _cleanup_(freep) char *text = text_of(size, 3, 3 * BLOCK_SIZE + 1);

    ck_assert_uint_le(check_blocks(text, size, true), 4);
    ck_assert_uint_le(check_blocks(text, size, false), 4);
}
END_TEST

START_TEST(a_large_text_has_several_blocks)
{
    size_t size = 3 * BLOCK_SIZE;
    _cleanup_(freep) char *text = text_of(size, size, size);

    for (size_t i = 9; i < size; i += 10)
        text[i] = '\n';
    ck_assert_uint_ge(check_blocks(text, size, true), 3);
    ck_assert_uint_ge(check_blocks(text, size, false), 2);
}
END_TEST

START_TEST(a_cancelled_job_reads_no_more)
{
    struct block_reader reader = {.source = source_of("a\n", 2, false)};
    struct block block = {.data = NULL};

    is_cancelled = true;
    ck_assert_int_eq(block_read(&reader, &block), -ECANCELED);
    block_reader_deinit(&reader);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugins blocks");
    TCase *tcase = tcase_create("blocks");

    tcase_add_test(tcase, no_text_has_no_block);
    tcase_add_test(tcase, lines_are_whole_around_the_size_of_a_block);
    tcase_add_test(tcase, a_line_longer_than_a_block_is_whole);
    tcase_add_test(tcase, a_large_text_has_several_blocks);
    tcase_add_test(tcase, a_cancelled_job_reads_no_more);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
