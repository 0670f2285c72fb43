/* SPDX-License-Identifier: Apache-2.0
 *
 * counts.h: how often a test repeats what it does, where each step is slow. For unit and stress tests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Meson sets it for cross builds: an emulator runs the tests. */
#ifndef EMULATED
#define EMULATED 0
#endif

/* Smaller counts, at compile time. */
#ifndef SLOW
#define SLOW (SANITIZED || EMULATED)
#endif

static inline bool thorough(void)
{
    const char *value = getenv("WSD_THOROUGH");

    return value && *value == '1';
}

/* Returns `n`; or `few` where an emulator runs the test, unless WSD_THOROUGH=1. */
static inline uint32_t count_for(uint32_t n, uint32_t few)
{
    return EMULATED && !thorough() ? few : n;
}
