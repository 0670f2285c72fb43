/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.h: what goes in and what comes out of jobs, as files.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "outfile.h"
#include "wsd/client.h"

#define INLINE_MAX (60u * 1024u) /* input of at most this size goes with the submit */

/* --- out -----------------------------------------------------------------------------------------------------------
 */

struct output {
    int fd;
    const char *name;
    bool failed;         /* it was said; nothing more is written */
    struct outfile file; /* where it is not stdout */
};

/* path NULL or "-": stdout. reads: what the job may read, or NULL. The struct must not move. 0 or the exit code, said.
 */
int output_open(struct output *output, const char *path, const struct outfile_reads *reads);
/* For what is written by stdio, instead of output_write(). NULL: said. */
FILE *output_stream(struct output *output);
/* Before output_close(). 0 or CODE_IO, said. */
int output_stream_end(struct output *output, FILE *stream);
/* Whether another process may write into it, given its descriptor: a regular file, or with `pipes` also a pipe. */
bool output_takes_writers(const struct output *output, bool pipes);
/* Blocks. 0 or CODE_IO, said once. */
int output_write(struct output *output, const void *data, size_t size);
/* complete: a file has the output from now on, else what it had before (see outfile.h). Again: nothing happens.
 * 0 or CODE_IO, said. */
int output_close(struct output *output, bool complete);

/* The exit code where a file that is named cannot be opened. */
int open_exit(int error);

/* --- in ------------------------------------------------------------------------------------------------------------
 */

struct input {
    int fd; /* -1: none */
    const char *name;
    bool whole; /* all of it is in data */
    /* a regular file, of which `size` bytes from `offset` on are the input: wsd may be given the file itself */
    bool large;
    uint64_t offset, size;
    bool eof, ended;
    uint8_t *data; /* data[at..end) is not fed yet */
    size_t at, end;
};

/* path NULL: none; "-": stdin. A small regular file is read at once (`whole`). 0 or the exit code, said. */
int input_open(struct input *input, const char *path);
/* The same without reading: for --local. */
int input_open_fd(struct input *input, const char *path);
/* Whether it should be polled for POLLIN. */
bool input_wants(const struct input *input);
bool input_is_pipe(const struct input *input);
/* Reads once, where it is readable. 0 or CODE_IO, said. */
int input_read(struct input *input);
/* wsd has been given the file: nothing is left to read, also for a process that has stdin after this one. */
void input_given(struct input *input);
/* Hands on what was read, as far as wsd takes it. 0, or the exit code, said. */
int input_feed(struct input *input, const struct wsd_client *client, struct wsd_call *call);
void input_close(struct input *input);
