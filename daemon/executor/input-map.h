/* SPDX-License-Identifier: Apache-2.0
 *
 * input-map.h: maps inputs that came as descriptors, for jobs to read.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The map of one job. [the worker that claimed the slot; the handler of faults, on any thread] */
struct input_map {
    void *base; /* NULL: nothing is mapped [const while it is announced] */
    size_t room;
    const void *input; /* inside it; NULL: empty */
    uint64_t end;      /* of the input in its file */
    int fd;            /* of a file that may be truncated meanwhile; -1: none */
    _Atomic bool cut;  /* [atomic: relaxed; set by the handler on threads that the job's end has joined] */
};

void input_map_init(struct input_map *m);

/* Maps an input that cannot change: a memfd with the seals for that. 0, -EBADMSG, or a negative errno; fd stays the
 * caller's. */
int input_map_sealed(struct input_map *m, int fd, uint64_t size);

/* Maps `size` bytes of another's file, from `at` on. Takes over the descriptor, also on failure. copy: the function
 * gets a copy that others cannot change. A file that cannot be mapped is copied as well. 0; -ESTALE: the file has
 * become shorter; or a negative errno. slot: below RING_SLOTS, one map each at a time. */
int input_map_file(struct input_map *m, uint32_t slot, int fd, uint64_t at, uint64_t size, bool copy);

/* Makes a copy of memory that others may change. 0 or a negative errno. */
int input_map_copy(struct input_map *m, const void *from, size_t size);

/* What is left of a map after its job. */
struct input_map_rest {
    void *base; /* NULL: nothing */
    size_t room;
};

/* The job is over. False: its input was truncated while it ran, so it may have read zeros instead. The caller unmaps
 * *ret_rest when there is time: that takes 4 to 5 ms for 64 MiB. */
bool input_map_drop(struct input_map *m, uint32_t slot, struct input_map_rest *ret_rest);
bool input_map_unmap(const struct input_map_rest *rest); /* false: there was nothing */

/* For SIGBUS. If the address is in an input_map_file() of a file that was truncated or cannot be read, puts zeros
 * there, from that page on. True: done, and the thread can go on. [any thread, in a signal handler] */
bool input_map_mend(const void *address);
