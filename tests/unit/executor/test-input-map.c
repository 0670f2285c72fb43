/* SPDX-License-Identifier: Apache-2.0
 *
 * test-input-map.c: how jobs read inputs by descriptor, and what happens when the file is truncated. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "executor/input-map.h"
#include "ring/layout.h"
#include "tests/unit/suite.h"

#define PAGE 4096
#define SIZE (3 * PAGE + 100)

static struct input_map map;
static uint8_t content[SIZE];
static int file;

static void on_bus(int signal, siginfo_t *info, void *context)
{
    if (!input_map_mend(info->si_addr))
        _exit(77);
}

static void setup(void)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};

    sigaction(SIGBUS, &action, NULL);
    for (size_t i = 0; i < SIZE; i++)
        content[i] = (uint8_t)(i % 251 + 1); /* no zeros */
    file = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(file, content, SIZE), SIZE);
    input_map_init(&map);
}

static int open_map(uint64_t at, uint64_t size, bool copy)
{
    return input_map_file(&map, 7, dup(file), at, size, copy);
}

static bool drop(void)
{
    struct input_map_rest rest;
    bool whole = input_map_drop(&map, 7, &rest);

    ck_assert_ptr_null(map.base);
    input_map_unmap(&rest);
    return whole;
}

START_TEST(a_file_is_read_from_anywhere)
{
    static const uint64_t at[] = {0, 1, PAGE - 1, PAGE, PAGE + 1, SIZE - 1};

    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        ck_assert_int_eq(open_map(at[i], SIZE - at[i], _i), 0);
        ck_assert_mem_eq(map.input, content + at[i], SIZE - at[i]);
        ck_assert(drop());
    }
    ck_assert_int_eq(open_map(SIZE, 0, _i), 0);
    ck_assert_ptr_null(map.input);
    ck_assert(drop());
}
END_TEST

START_TEST(what_the_file_does_not_have_is_refused)
{
    static const struct {
        uint64_t at, size;
        int error;
    } wrong[] = {{0, SIZE + 1, -ESTALE},
                 {SIZE, 1, -ESTALE},
                 {SIZE + 1, 0, -ESTALE},
                 {INT64_MAX, 1, -EBADMSG},
                 {UINT64_MAX, 1, -EBADMSG},
                 {1, UINT64_MAX, -EBADMSG},
                 {UINT64_MAX, UINT64_MAX, -EBADMSG}};

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        ck_assert_int_eq(open_map(wrong[i].at, wrong[i].size, false), wrong[i].error);
        ck_assert(drop());
    }
}
END_TEST

START_TEST(a_cut_file_reads_as_zeros_and_is_told)
{
    ck_assert_int_eq(open_map(10, SIZE - 10, false), 0);
    ck_assert_int_eq(ftruncate(file, PAGE + 50), 0);
    const uint8_t *input = map.input;
    ck_assert_int_eq(input[2 * PAGE], 0); /* faults, and goes on */
    ck_assert_int_eq(input[SIZE - 11], 0);
    ck_assert_mem_eq(input, content + 10, PAGE + 40);
    ck_assert_int_eq(input[PAGE + 40], 0);
    ck_assert_int_eq(ftruncate(file, SIZE), 0); /* as long as it was: but the job has seen other things */
    ck_assert(!drop());
}
END_TEST

START_TEST(a_cut_without_a_fault_is_told)
{
    ck_assert_int_eq(open_map(0, SIZE, false), 0);
    ck_assert_int_eq(ftruncate(file, SIZE - 1), 0);
    ck_assert(!drop());
}
END_TEST

START_TEST(a_copy_cannot_be_cut_nor_changed)
{
    ck_assert_int_eq(open_map(0, SIZE, true), 0);
    ck_assert_int_eq(pwrite(file, "\0\0", 2, 0), 2);
    ck_assert_int_eq(ftruncate(file, 0), 0);
    ck_assert_mem_eq(map.input, content, SIZE);
    ck_assert(drop());
}
END_TEST

START_TEST(a_fault_elsewhere_is_not_ours)
{
    void *other = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);

    ck_assert_int_eq(open_map(0, SIZE, false), 0);
    ck_assert(!input_map_mend(other));
    ck_assert(!input_map_mend((const uint8_t *)map.base - 1));
    ck_assert(!input_map_mend((const uint8_t *)map.base + map.room));
    ck_assert(!input_map_mend(NULL));
    ck_assert(input_map_mend((const uint8_t *)map.base + map.room - 1));
    const void *was = map.base;
    ck_assert(!drop());
    ck_assert(!input_map_mend(was));
}
END_TEST

START_TEST(a_memory_file_has_to_be_sealed)
{
    ck_assert_int_eq(input_map_sealed(&map, file, SIZE), -EBADMSG);
    ck_assert_int_eq(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    ck_assert_int_eq(input_map_sealed(&map, file, SIZE), -EBADMSG);
    ck_assert_int_eq(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
    ck_assert_int_eq(input_map_sealed(&map, file, SIZE - 1), -EBADMSG);
    ck_assert_int_eq(input_map_sealed(&map, file, SIZE), 0);
    ck_assert_mem_eq(map.input, content, SIZE);
    ck_assert(drop());
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("map");
    Suite *s = suite_create("map");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_loop_test(c, a_file_is_read_from_anywhere, 0, 2);
    tcase_add_test(c, what_the_file_does_not_have_is_refused);
    tcase_add_test(c, a_cut_file_reads_as_zeros_and_is_told);
    tcase_add_test(c, a_cut_without_a_fault_is_told);
    tcase_add_test(c, a_copy_cannot_be_cut_nor_changed);
    tcase_add_test(c, a_fault_elsewhere_is_not_ours);
    tcase_add_test(c, a_memory_file_has_to_be_sealed);
    suite_add_tcase(s, c);
    return run_suite(s);
}
