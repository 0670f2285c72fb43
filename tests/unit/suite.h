/* SPDX-License-Identifier: Apache-2.0
 *
 * suite.h: the end of main() in each unit program: runs its suite.
 */
#pragma once

#include <check.h>
#include <stdlib.h>

/* Runs all cases, says what check says of them, and frees the suite. Returns the exit status of main(). */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);

    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
