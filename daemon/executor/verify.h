/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.h: tries whether the sandbox holds. [main, before threads]
 */
#pragma once

#include <sys/types.h>

#include "executor/sandbox.h"

/* Tries all parts of the sandbox. Returns NULL, or the name of what does not hold. landlock: its version. */
const char *verify(const struct sandbox *s, int landlock, pid_t witness);

/* A process of the same user outside the sandbox to be entered: verify() tries to reach its memory and to signal it. It
 * is wsd, if wsd and wsd-spawn run as this user; else a child that lives for as long as this takes. */
struct witness {
    pid_t pid;
    int fd; /* -1: it is our parent */
};
/* 0 or a negative errno. */
int witness_begin(struct witness *ret);
void witness_end(struct witness *w);
