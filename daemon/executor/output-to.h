/* SPDX-License-Identifier: Apache-2.0
 *
 * output-to.h: the output of one job that goes straight to a descriptor of its submitter's: a regular file or a pipe.
 *
 * The open file is the submitter's, too. So its flags stay as they are, and its position moves as by any other writer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_TO_ROOM (256u * 1024u) /* bytes that are gathered before they are written, unless more are reserved */
#define OUTPUT_TO_PASS (32u * 1024u)  /* so many are written at once, from where they lie: a copy costs more */

struct slot;

struct output_to {
    bool on;        /* all output of the job goes there */
    bool is_pipe;   /* it is no file */
    bool claimed;   /* wsd has been told, by the ring, that there is output */
    bool can_cut;   /* it can be taken back: see enum ring_output */
    int fd;         /* -1: there is none any longer */
    int through[2]; /* where fd may block: a pipe of our own, which the bytes pass; -1 */
    int error;      /* 0, or the negative errno with which it has ended */
    uint64_t begin; /* of a file: its position before the first byte */
    uint64_t written;
    uint8_t *data;
    size_t room, used;
};

void output_to_init(struct output_to *to);

/* Waits for the descriptor of a job with DOWN_OUTPUT_FD, and checks it. Returns NULL, or why nothing can be written
 * there. [worker, after output_init()] */
const char *output_to_begin(struct slot *s);

/* As those of output.h. [job's output_lock] */
void *output_to_reserve(struct slot *s, size_t min, size_t *ret_size);
void output_to_commit(struct slot *s, size_t size);
int output_to_flush(struct slot *s);
/* Writes large output from where it lies. Returns how much of it was taken; 0: reserve room. */
size_t output_to_pass(struct slot *s, const void *data, size_t size);

/* Writes the rest, and closes the descriptor, whether it came or not. May wait until the job is cancelled. False: some
 * of the output was not written, and `words` says why. [worker] */
bool output_to_end(struct slot *s, char *words, size_t size);
