/* SPDX-License-Identifier: Apache-2.0
 *
 * tar.h: headers of a tar archive: ustar, and pax records for what does not fit there. They are the same bytes as GNU
 * tar's `--format=posix` without the times of access and of change. All calls [any].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "plugins/common.h"

#define TAR_BLOCK  512u         /* headers and data begin at multiples of it */
#define TAR_RECORD (20u * 512u) /* the archive ends at a multiple of it */

/* What ustar has room for. Beyond that there are pax records. */
#define TAR_NAME_MAX   100u
#define TAR_OWNER_MAX  2097151u    /* of user and group ids: 7 octal digits */
#define TAR_SIZE_MAX   8589934591u /* 11 octal digits; also of seconds */
#define TAR_PEOPLE_MAX 32u         /* of the names of user and group */

/* One member, without its data. */
struct tar_member {
    const char *name; /* that of a folder ends with a slash */
    const char *link; /* where a symbolic link leads to, or the earlier member that this one is; else NULL */
    bool hard;        /* it is an earlier member */
    mode_t mode;
    uid_t uid;
    gid_t gid;
    uint64_t size; /* of the data that follows */
    struct timespec mtime;
    dev_t device;
    const char *user, *group; /* "": not known */
};

/* Appends the header. 0 or -ENOMEM. */
int tar_put_header(struct buffer *buffer, const struct tar_member *member);

/* Appends data, and zeros up to the next multiple of TAR_BLOCK. 0 or -ENOMEM. */
int tar_put_data(struct buffer *buffer, const void *data, size_t size);

/* Zeros behind so many bytes, up to the next multiple of TAR_BLOCK. */
size_t tar_padding(uint64_t size);

/* Where the name of a member begins in a path: behind what would lead out of the folder where it is extracted. That is
 * everything up to the last `..`, and slashes. The rest may be empty. */
size_t tar_name_begin(const char *path);
