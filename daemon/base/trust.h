/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.h: whether a file or directory says what root and our own user say: plugins, configuration, the store, the
 * socket.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nobody but root and ourselves could have written it. Says nothing of the directories above it, where another one
 * could be put in its place: see trust_open(). */
static inline bool trust_only_ours(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* A file that has no second name where others may have put it: only what is written here changes it, and nothing else
 * changes with it. */
static inline bool trust_only_here(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_nlink == 1 && trust_only_ours(st);
}

/* Walks the path as the kernel does, through symbolic links too. Returns an O_PATH descriptor of what it leads to, or a
 * negative errno.
 * -EPERM, with the directory in ret_where: somebody else than root and our own user could put another thing in its
 * place. In a sticky directory of ours, such as /tmp, what is ours stays. Also told of a name that is free. ret_where
 * is empty with any other result. */
int trust_open(const char *path, char ret_where[static PATH_MAX]);
