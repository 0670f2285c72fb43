/* SPDX-License-Identifier: Apache-2.0
 *
 * test-seal.c: a memory file is sealed, also if a page of it is held for a moment: a pipe holds it here. */
#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static int file, pipe_fds[2];
static unsigned n_refused;
static bool is_moment; /* the page is let go when the kernel has refused once */

static void let_go(void)
{
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static int add_seals(int fd, int command, int seals)
{
    int r = fcntl(fd, command, seals);

    n_refused += r < 0;
    if (r < 0 && is_moment && n_refused == 1)
        let_go();
    return r;
}

#define fcntl add_seals
#include "base/seal.h"
#undef fcntl
#include "tests/unit/suite.h"

/* A page of the file is in a pipe. */
static void hold(void)
{
    file = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(write(file, "page", 4), 4);
    void *page = mmap(NULL, 4, PROT_READ, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    ck_assert_int_eq(pipe(pipe_fds), 0);
    ck_assert_int_eq(vmsplice(pipe_fds[1], &(struct iovec){page, 4}, 1, 0), 4);
    munmap(page, 4);
}

START_TEST(one_that_is_held_is_not_sealed)
{
    hold();
    ck_assert_int_eq(seal_memory(file), -EBUSY);
    ck_assert_uint_eq(n_refused, SEAL_TRIES);
    let_go();
    ck_assert_int_eq(seal_memory(file), 0);
    ck_assert_int_eq(write(file, "more", 4), -1);
    ck_assert_int_eq(seal_memory(file), -EPERM); /* once */
    close(file);
}
END_TEST

START_TEST(one_that_is_held_for_a_moment_is)
{
    hold();
    is_moment = true;
    ck_assert_int_eq(seal_memory(file), 0);
    ck_assert_uint_eq(n_refused, 1);
    close(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/seal");
    TCase *t = tcase_create("seal");

    suite_add_tcase(suite, t);
    tcase_add_test(t, one_that_is_held_is_not_sealed);
    tcase_add_test(t, one_that_is_held_for_a_moment_is);
    return run_suite(suite);
}
