/* SPDX-License-Identifier: Apache-2.0
 *
 * members.h: what becomes members of an archive: the files that are named and, below folders, everything. The order is
 * that of `tar --sort=name`: a folder before what is in it, names of one folder by their bytes. Symbolic links are
 * members, and are not followed. All calls [one task at a time] unless they say otherwise.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "wsd/plugin.h"

#define MEMBERS_PATIENCE 100u /* waits of 10 ms for a descriptor, while there is none */

/* What keeps a file from becoming a member. */
enum problem {
    PROBLEM_NONE,
    PROBLEM_LOOK,   /* error: its folder does not let it be looked at */
    PROBLEM_LINK,   /* error: where a symbolic link leads to is not known */
    PROBLEM_OPEN,   /* error */
    PROBLEM_LINKED, /* the same, of a file that other names in the archive are links to by now */
    PROBLEM_READ,   /* error: of a folder: its names could not be read */
    PROBLEM_SOCKET, /* archives have no sockets */
};

/* One file. The texts are the receiver's, for member_deinit(). */
struct member {
    char *path;  /* as wsd_job_open() takes it; that of a folder ends with a slash */
    size_t said; /* from there on it is named in messages: behind the folder of -C */
    size_t name; /* from there on it is the member's name; that may be empty, or a slash */
    char *link;  /* where a symbolic link leads to; the name of an earlier member that is the same file; else NULL */
    bool hard;   /* it is an earlier member */
    struct stat st;
    enum problem problem;
    int error;
};

/* Embedded; {.job = …} with what is constant, zeroed otherwise. */
struct members {
    struct wsd_job *job;
    const char *base;            /* of -C; NULL: the submitter's working directory [const after init] */
    const char *const *paths;    /* [const after init] */
    size_t n_paths;              /* [const after init] */
    const char *const *excluded; /* patterns of --exclude [const after init] */
    size_t n_excluded;           /* [const after init] */
    size_t next;                 /* of the paths */
    struct listing *listings;    /* the folders that are being walked through, the innermost last */
    size_t n_listings, allocated;
    void *linked;           /* tree of the members that have several names */
    atomic_uint impatience; /* waits since a file was opened; relaxed: only the count matters */
};

/* Gives the next one; path is NULL at the end. 0, -ENOMEM or -ECANCELED. */
int members_next(struct members *members, struct member *ret_member);

/* The member is in the archive: its other names become hard links. 0 or -ENOMEM. */
int members_add(struct members *members, const struct member *member);

void members_deinit(struct members *members);

/* The name in the archive, never empty. Valid as long as the member is. [any] */
const char *member_name(const struct member *member);

/* Opens the file that was looked at. Where descriptors are short it waits for some that others close; MEMBERS_PATIENCE bounds
 * that for all calls until one succeeds. A descriptor, or a negative errno: -ESTALE where another one is in its place. [any] */
int member_open(struct members *members, const char *path, const struct stat *st);

void member_deinit(struct member *member);
