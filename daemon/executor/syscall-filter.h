/* SPDX-License-Identifier: Apache-2.0
 *
 * syscall-filter.h: a part of the sandbox: the system calls that an executor refuses itself. [main, before threads]
 */
#pragma once

#include <stdbool.h>

#include "executor/sandbox.h"

/* signals: refuse signals to other processes here too. 0 or a negative errno. */
int syscall_filter_enter(const struct sandbox *s, bool signals);
