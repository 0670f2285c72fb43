/* SPDX-License-Identifier: Apache-2.0
 *
 * outfile.h: a file that a user names for output, and that keeps its content until the output is complete.
 *
 * A regular file is written as a sibling, with its mode, owner and attributes. The sibling takes its place by rename()
 * when the output is complete. That may be impossible: for a device, a FIFO, a symbolic or a hard link, a directory
 * without the right to write. The same holds for an owner or an attribute that cannot be kept. Then the file itself is
 * written, from the first byte of output on, and truncated after the last. If it is also what the job reads, the output
 * is kept apart until it is complete, and then copied.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct outfile {
    const char *path;
    int fd;          /* for what is written; -1: none */
    int target;      /* the file itself; -1: it is not open */
    char *temporary; /* name of the sibling; NULL: there is none */
    bool regular;    /* the file itself can be cut */
    struct outfile *next;
};

/* What the job may read. */
struct outfile_reads {
    int input;        /* -1: none */
    const char *path; /* of one that is not open yet; NULL: none */
    const char *const *args;
    size_t n_args;
};

/* reads may be NULL. path has to live as long as the file. The struct must not move. 0, or a negative errno. */
int outfile_open(struct outfile *file, const char *path, const struct outfile_reads *reads);
/* The output is complete: it is what is in the file from now on. Closes. 0, or a negative errno: then it is as if
 * abandoned. */
int outfile_commit(struct outfile *file);
/* It is not: a file that nothing was written into itself is as before. Closes. */
void outfile_abandon(struct outfile *file);
/* Removes all siblings: wsctl is about to end in a signal handler. */
void outfile_remove_all(void);
