/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.h: whether a file or directory says what root and our own user say: plugins, configuration, the store. Only its mode and its
 * owner are looked at; who may write to a directory above it could put another one in its place.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nobody but root and ourselves could have written it. */
static inline bool trust_only_ours(const struct stat *st)
{
    return (st->st_uid == 0 || st->st_uid == geteuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}
