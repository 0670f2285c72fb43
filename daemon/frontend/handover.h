/* SPDX-License-Identifier: Apache-2.0
 *
 * handover.h: connections on their way from one wsd to the next: what stands in the memory that goes with the
 * descriptors. Written and read on one machine, so its byte order is that of the machine. A field is never moved:
 * another layout has another version, and a wsd that does not know the version closes the connections.
 */
#pragma once

#include <stdint.h>

#define HANDOVER_MAGIC   0x7470656b64737731ull
#define HANDOVER_VERSION 1u
#define HANDOVER_MAX     (1u << 30) /* bytes of it all */

struct handover_head {
    uint64_t magic;
    uint32_t version, n_peers;
    uint64_t size; /* of all, with this */
};

enum handover_peer_flags { HANDOVER_GREETED = 1u << 0 };

/* Each is followed by its directory, the bytes of a frame that is not whole yet, and its calls. */
struct handover_peer {
    uint64_t inode; /* of the socket: which of the descriptors it is */
    uint64_t features;
    uint32_t flags, window, n_opens;
    uint32_t directory_size, in_size, n_calls;
};

enum handover_call_flags {
    HANDOVER_SUBMIT = 1u << 0, /* else AWAIT */
    HANDOVER_PROGRESS = 1u << 1,
    HANDOVER_CANCEL = 1u << 2, /* asked for while no wsd had the job */
};

/* A request that waits for a durable job. */
struct handover_call {
    uint8_t id[16];
    uint64_t out_allowed;
    uint32_t tag, flags;
};
