/* SPDX-License-Identifier: Apache-2.0
 *
 * map.h: inputs by descriptor, where jobs read them.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One job's. [the worker that claimed the slot; the handler of faults, on any thread] */
struct map {
    void *base; /* NULL: nothing is mapped [const while it is announced] */
    size_t room;
    const void *input; /* in there; NULL where it is empty */
    uint64_t end;      /* of the input in its file */
    int fd;            /* of a file that may be cut meanwhile; -1 */
    _Atomic bool cut;  /* [atomic: relaxed; set by the handler on threads that the job's end has joined] */
};

void map_init(struct map *m);

/* An input that cannot change: a memfd with the seals for that. 0, -EBADMSG, or a negative errno; fd stays the
 * caller's. */
int map_sealed(struct map *m, int fd, uint64_t size);

/* So many bytes of somebody's file, from `at` on. Takes the descriptor, also where it fails. copy: what the function
 * sees, nobody can change; so is the whole of a file that cannot be mapped. 0; -ESTALE: the file is not that long any
 * more; or a negative errno. slot: below RING_SLOTS, one map each at a time. */
int map_file(struct map *m, uint32_t slot, int fd, uint64_t at, uint64_t size, bool copy);

/* A copy of what others may change. 0 or a negative errno. */
int map_copy(struct map *m, const void *from, size_t size);

/* What is left of one whose job is over. */
struct map_rest {
    void *base; /* NULL: nothing */
    size_t room;
};

/* The job is over: false where its input was cut while it ran, so that it may have seen zeros in its place. The rest is
 * to be unmapped, when there is time for that: it takes 4 to 5 ms for 64 MiB. */
bool map_drop(struct map *m, uint32_t slot, struct map_rest *ret_rest);
bool map_unmap(const struct map_rest *rest); /* false: there was nothing */

/* SIGBUS: where the address is in a map_file() whose file was cut, or cannot be read, there are zeros from that page
 * on: true, and the thread can go on. [any thread, in a signal handler] */
bool map_mend(const void *address);
