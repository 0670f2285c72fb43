/* SPDX-License-Identifier: Apache-2.0
 *
 * handover.h: the hand-over of connections from one wsd to the next: the layout of the memory that goes with the
 * descriptors. It is written and read on one machine, in that machine's byte order. A field is never moved: another
 * layout has another version, and a wsd that does not know the version closes the connections.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct frontend;

#define HANDOVER_MAGIC   0x7470656b64737731ull
#define HANDOVER_VERSION 1u
#define HANDOVER_MAX     (1u << 30) /* bytes in all */

struct handover_head {
    uint64_t magic;
    uint32_t version, n_peers;
    uint64_t size; /* bytes in all, with this head */
};

enum handover_peer_flags { HANDOVER_GREETED = 1u << 0 };

/* Each is followed by its directory, the bytes of an incomplete frame, and its calls. */
struct handover_peer {
    uint64_t inode; /* of the socket: identifies the descriptor */
    uint64_t features;
    uint32_t flags, window, n_opens;
    uint32_t directory_size, in_size, n_calls;
};

enum handover_call_flags {
    HANDOVER_SUBMIT = 1u << 0, /* else AWAIT */
    HANDOVER_PROGRESS = 1u << 1,
    HANDOVER_CANCEL = 1u << 2, /* a cancel was requested while no wsd had the job */
};

/* A request that waits for a durable job. */
struct handover_call {
    uint8_t id[16];
    uint64_t out_allowed;
    uint32_t tag, flags;
};

/* At the end, if options.keeps: answers what only this wsd can answer. Then makes the state that the next wsd needs for
 * the connections. *ret_state is a sealed memory file, which the caller owns. *ret_fds are the connections'
 * descriptors. These stay the frontend's. The caller frees the array. */
int frontend_leave(struct frontend *f, int *ret_state, int **ret_fds, size_t *ret_n);
/* The counterpart in the next wsd, after jobs_start(): takes all descriptors. Returns 0 or a negative errno;
 * connections that it could not understand are closed. */
int frontend_take(struct frontend *f, int state, int *fds, size_t n, size_t *ret_taken);
