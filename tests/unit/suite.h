/* SPDX-License-Identifier: Apache-2.0
 *
 * suite.h: the end of main() in each unit program: runs its suite. Also makes an assertion that holds cheap. The
 * library, check, writes the line of each one to a file, for what it says of a crash. Here it does so only where the
 * line is another one than that of the last.
 */
#pragma once

#include <check.h>
#include <stdlib.h>

static inline void suite_mark(const char *of, int at)
{
    static int last;

    /* Relaxed: all threads may come here, and each line is right. */
    if (__atomic_load_n(&last, __ATOMIC_RELAXED) == at)
        return;
    __atomic_store_n(&last, at, __ATOMIC_RELAXED);
    _mark_point(of, at);
}
#define _mark_point(file, line) suite_mark(file, line)

/* Runs all cases, says what check says of them, and frees the suite. Returns the exit status of main(). */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
