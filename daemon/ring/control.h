/* SPDX-License-Identifier: Apache-2.0
 *
 * control.h: what goes between wsd and an executor beside the rings: seldom things and descriptors. A SOCK_SEQPACKET
 * pair; one struct control a packet, of which only the part up to the end of its text is sent. Both sides check every
 * packet.
 *
 * The executor is started as
 *     wsd-executor WORKERS PLUGIN_DIR[:PLUGIN_DIR...] PATHS LOG_LEVEL
 * with descriptors 3: down, 4: up, 5: bell (eventfd), 6: control socket. PATHS is "any" where plugins may be opened by
 * any path (a user's own wsd), else "dirs".
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CONTROL_FD_DOWN    3
#define CONTROL_FD_UP      4
#define CONTROL_FD_BELL    5
#define CONTROL_FD_CONTROL 6

#define CONTROL_TEXT 4096u

enum control_kind {
    /* wsd -> executor */
    CONTROL_LOAD = 1,   /* number: plugin number; text: name or path, as submitted. -> LOADED [.., FUNCTION..] */
    CONTROL_INPUT = 2,  /* slot, generation; descriptor of the input */
    CONTROL_OPENED = 3, /* slot, generation, number: serial; error (0 and a descriptor, or a positive errno) */
    CONTROL_FINISH = 4, /* no more work will come: run fini and exit 0 */
    /* executor -> wsd */
    CONTROL_READY = 65,    /* the pool runs; number: workers */
    CONTROL_LOADED = 66,   /* number: plugin number; error: 0 or a positive errno (ENOENT not found, ENOEXEC no plugin
                              or another ABI, EACCES not permitted, ELIBBAD cannot be loaded or its init failed, with
                              the words as text). On 0: text is name NUL version NUL help NUL path NUL; functions: count; that many
                              FUNCTION packets follow */
    CONTROL_FUNCTION = 67, /* number: plugin number; functions: index; flags; text: name NUL help NUL */
    CONTROL_OPEN = 68,     /* slot, generation, number: serial; text: path -> OPENED */
    CONTROL_MESSAGE = 69,  /* slot, generation, number: level; text: a log line of the job */
};

struct control {
    uint32_t kind;
    uint32_t slot, generation;
    uint32_t number;
    uint32_t error;
    uint32_t functions;
    uint64_t flags;
    uint32_t text_size; /* with the last NUL */
    uint32_t reserved;
    char text[CONTROL_TEXT];
};

#define CONTROL_HEADER offsetof(struct control, text)

/* Sends one packet, with a descriptor unless fd is -1. 0, -EAGAIN (only with nonblocking descriptors), -EPIPE, .. [any] */
int control_send(int socket, const struct control *c, int fd);

/* Receives one packet into *ret, whose text is "" where it has none; *ret_fd is -1 or a descriptor (close-on-exec) that the caller owns. 0; -EAGAIN;
 * -ECONNRESET at the end; -EBADMSG where the packet is malformed (text not ending in NUL, sizes, two descriptors). [any,
 * one at a time] */
int control_receive(int socket, struct control *ret, int *ret_fd);
