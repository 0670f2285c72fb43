/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h: what a fuzzer defines, and how it says that a promise is broken: in release builds too.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(x)                                                                                                  \
    do {                                                                                                               \
        if (!(x)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x);                                      \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)
