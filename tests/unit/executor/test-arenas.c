/* SPDX-License-Identifier: Apache-2.0
 *
 * test-arenas.c: arenas in an executor: which are there, and which parts of them. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "executor/arenas.h"
#include "tests/unit/suite.h"

#define SIZE 10000 /* no whole number of pages */

static struct arena_table arenas;

static void setup(void)
{
    memset(&arenas, 0, sizeof(arenas));
    arenas_init(&arenas);
}

static int memory(size_t size, bool sealed)
{
    int fd = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    if (sealed)
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

static bool is_closed(int fd)
{
    return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

START_TEST(an_arena_is_there_until_it_is_dropped)
{
    int fd = memory(SIZE, true), keep = dup(fd);

    ck_assert_ptr_null(arenas_use(&arenas, 5));
    ck_assert_int_eq(arenas_drop(&arenas, 5), -EBADMSG);
    ck_assert_int_eq(arenas_put(&arenas, 5, fd), 0);
    ck_assert(is_closed(fd));
    ck_assert_ptr_null(arenas_use(&arenas, 4));
    struct mapped_arena *a = arenas_use(&arenas, 5);
    ck_assert_ptr_nonnull(a);
    strcpy(arena_part(a, 1234, 6), "hello");
    char text[6];
    ck_assert_int_eq(pread(keep, text, 6, 1234), 6); /* it is that memory */
    ck_assert_str_eq(text, "hello");
    ck_assert_int_eq(arenas_drop(&arenas, 5), -EBADMSG); /* used */
    ck_assert_ptr_eq(arenas_use(&arenas, 5), a);
    arenas_leave(&arenas, a);
    ck_assert_int_eq(arenas_drop(&arenas, 5), -EBADMSG); /* still */
    arenas_leave(&arenas, a);
    ck_assert_int_eq(arenas_drop(&arenas, 5), 0);
    ck_assert_ptr_null(arenas_use(&arenas, 5));
    ck_assert_int_eq(arenas_put(&arenas, 5, memory(SIZE, true)), 0); /* another one may be called that now */
    a = arenas_use(&arenas, 5);
    ck_assert_str_eq(arena_part(a, 1234, 6), "");
    close(keep);
}
END_TEST

START_TEST(a_number_is_that_of_one_arena)
{
    static const uint32_t numbers[] = {0, RING_ARENAS - 1, UINT32_MAX - 5};
    struct mapped_arena *a;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint32_t number = numbers[i], next = number + RING_ARENAS;

        ck_assert_int_eq(arenas_put(&arenas, number, memory(SIZE, true)), 0);
        a = arenas_use(&arenas, number);
        strcpy(arena_part(a, 0, 6), "first");
        ck_assert_ptr_null(arenas_use(&arenas, next)); /* which will come into its place */
        ck_assert_int_eq(arenas_drop(&arenas, next), -EBADMSG);
        for (int same = 0; same < 2; same++) { /* not while that one is there */
            int fd = memory(SIZE, true);
            ck_assert_int_eq(arenas_put(&arenas, same ? number : next, fd), -EBADMSG);
            ck_assert(is_closed(fd));
        }
        ck_assert_str_eq(arena_part(a, 0, 6), "first");
        arenas_leave(&arenas, a);
        ck_assert_int_eq(arenas_drop(&arenas, number), 0);
        ck_assert_int_eq(arenas_put(&arenas, next, memory(SIZE, true)), 0);
        ck_assert_ptr_null(arenas_use(&arenas, number));
        a = arenas_use(&arenas, next);
        ck_assert_str_eq(arena_part(a, 0, 6), "");
    }
}
END_TEST

START_TEST(a_part_lies_in_its_arena)
{
    static const struct {
        uint64_t at, size;
        bool lies;
    } parts[] = {{0, 0, true},           {0, SIZE, true},        {0, SIZE + 1, false},      {1, SIZE - 1, true},
                 {1, SIZE, false},       {SIZE, 0, true},        {SIZE, 1, false},          {SIZE + 1, 0, false},
                 {UINT64_MAX, 1, false}, {1, UINT64_MAX, false}, {UINT64_MAX - 1, 2, false}};

    ck_assert_int_eq(arenas_put(&arenas, 1, memory(SIZE, true)), 0);
    struct mapped_arena *a = arenas_use(&arenas, 1);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        ck_assert_ptr_eq(arena_part(a, parts[i].at, parts[i].size),
                         parts[i].lies ? (char *)a->base + parts[i].at : NULL);
}
END_TEST

/* Jobs that wait for it are not to wait for ever. */
START_TEST(what_cannot_be_mapped_is_there_and_has_no_parts)
{
    int fds[] = {memory(SIZE, false), memory(0, true), open("/dev/null", O_RDWR | O_CLOEXEC), -1};

    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(arenas_put(&arenas, i, fds[i]), 0);
        struct mapped_arena *a = arenas_use(&arenas, i);
        ck_assert_ptr_nonnull(a);
        ck_assert_ptr_null(arena_part(a, 0, 0));
        arenas_leave(&arenas, a);
        ck_assert_int_eq(arenas_drop(&arenas, i), 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("arenas");
    TCase *tc = tcase_create("arenas");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, an_arena_is_there_until_it_is_dropped);
    tcase_add_test(tc, a_number_is_that_of_one_arena);
    tcase_add_test(tc, a_part_lies_in_its_arena);
    tcase_add_test(tc, what_cannot_be_mapped_is_there_and_has_no_parts);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
