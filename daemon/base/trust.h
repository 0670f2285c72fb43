/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.h: whether only root and our own user control a file or directory: plugins, configuration, the store, the
 * socket.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* True: only root and our own user could have written it. Says nothing of the directories above it, in which another
 * file could take its place: see trust_open(). */
static inline bool trust_only_ours(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* True: a file that has no second name elsewhere. So only writes here change it, and writing here changes nothing
 * else. */
static inline bool trust_only_here(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_nlink == 1 && trust_only_ours(st);
}

/* Walks the path as the kernel does, through symbolic links too. Returns an O_PATH descriptor of its target, or a
 * negative errno. It is -EPERM, with the directory in ret_where, where a user other than root and our own could put
 * another file in the target's place. The name need not exist for that. In a sticky directory of ours, such as /tmp,
 * our own files are safe. ret_where is empty with any other result. */
int trust_open(const char *path, char ret_where[static PATH_MAX]);
