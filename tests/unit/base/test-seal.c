/* SPDX-License-Identifier: Apache-2.0
 *
 * test-seal.c: a memory file is sealed, also where a page of it is held for a moment: a pipe holds it here. */
#include <check.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/seal.h"
#include "tests/unit/suite.h"

static int file, pipe_fds[2];

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

static void *let_go(void *unused)
{
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return NULL;
}

START_TEST(one_that_is_held_is_not_sealed)
{
    hold();
    ck_assert_int_eq(seal_memory(file), -EBUSY);
    let_go(NULL);
    ck_assert_int_eq(seal_memory(file), 0);
    ck_assert_int_eq(write(file, "more", 4), -1);
    ck_assert_int_eq(seal_memory(file), -EPERM); /* once */
    close(file);
}
END_TEST

START_TEST(one_that_is_held_for_a_moment_is)
{
    pthread_t thread;

    hold();
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
    ck_assert_int_eq(seal_memory(file), 0);
    pthread_join(thread, NULL);
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
