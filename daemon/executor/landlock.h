/* SPDX-License-Identifier: Apache-2.0
 *
 * landlock.h: a part of the sandbox: what Landlock keeps an executor from. [main, before threads]
 */
#pragma once

#include <stdbool.h>

#include "executor/sandbox.h"

#define LANDLOCK_WHERE 400u

/* The version of Landlock that the kernel has; 0: none, or one that is too old; or a negative errno. */
int landlock_version(void);
/* ret_where: LANDLOCK_WHERE bytes, set to the directory that is in the way if there is one; or NULL. 0 or a negative
 * errno. */
int landlock_enter(const struct sandbox *s, int version, char *ret_where);
/* Whether this version keeps signals inside. */
bool landlock_keeps_signals(int version);
