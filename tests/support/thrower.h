/* SPDX-License-Identifier: Apache-2.0
 *
 * thrower.h: what only C++ can do, for tests in C: an exception that passes through the library.
 */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

void thrower_throw(void);
/* True: the call was left by that exception. Otherwise *ret is what it returns. */
int thrower_catches(int (*call)(void), int *ret);

#ifdef __cplusplus
}
#endif
