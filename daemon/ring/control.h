/* SPDX-License-Identifier: Apache-2.0
 *
 * control.h: packets between wsd and an executor beside the rings: rare requests, and descriptors. They go over a
 * SOCK_SEQPACKET pair, one struct control a packet. Only the part up to the end of its text is sent. Both sides check
 * every packet.
 *
 * The executor is started as
 *      wsd-executor WORKERS PLUGIN_DIR[:PLUGIN_DIR...] PATHS LOG_LEVEL PIN STACK SANDBOX
 * Its descriptors are 3: down, 4: up, 5: bell (eventfd), 6: control socket, 7: a pipe, which is also its stdout and
 * stderr. If wsd itself starts it, there may be descriptor 8: a regular file, which stays open while any process below
 * the executor is left. The arguments are:
 *   - PATHS: "any" if plugins may be opened by any path (a user's own wsd), else "dirs".
 *   - PIN: "pin" if each worker has a CPU of its own, else "free".
 *   - STACK: the size of a worker's stack in bytes.
 *   - SANDBOX: KEY=VALUE,... of required, commands, children (0 or 1), core, memory (bytes), deny (names of system
 *     calls, separated by blanks), and, last, writable (directories, separated by colons).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define CONTROL_FD_DOWN    3
#define CONTROL_FD_UP      4
#define CONTROL_FD_BELL    5
#define CONTROL_FD_CONTROL 6
#define CONTROL_FD_WORDS   7
#define CONTROL_FD_LEFT    8

#define CONTROL_TEXT 4096u

enum control_kind {
    /* wsd -> executor */
    CONTROL_LOAD = 1,   /* number: plugin number; text: name or path, as submitted. -> LOADED [.., FUNCTION..] */
    CONTROL_INPUT = 2,  /* slot, generation; descriptor of the input */
    CONTROL_OPENED = 3, /* slot, generation, number: serial; error (0 and a descriptor, or a positive errno) */
    CONTROL_FINISH = 4, /* no more work will come: run fini and exit 0 */
    CONTROL_ASK = 5,    /* number: serial; functions: enum control_ask; flags: its argument; perhaps a descriptor, a
                           memfd of fixed size that the answer is written to -> ASKED */
    /* number: its place is free (layout.h); descriptor of an arena, mapped until ARENA_DROP */
    CONTROL_ARENA = 6,
    CONTROL_ARENA_DROP = 7,  /* number: of an arena that no job uses or will use */
    CONTROL_OUTPUT = 8,      /* slot, generation; descriptor for the output */
    CONTROL_LANE_GRANT = 40, /* descriptor of a lane's grant (lane-ring.h): LANE follows at once */
    CONTROL_LANE = 41, /* number: of the lane; descriptor of its memory; flags: DOWN_SAME_USER or 0; text: the client's
                                working directory, or "" -> LANED */
    CONTROL_LANE_BIND = 42,  /* number: of the lane; slot: number that it is called by there; generation: plugin number;
                                functions: index; flags: microseconds that a call may run, 0: any -> LANED */
    CONTROL_LANE_CLOSE = 43, /* number: of the lane -> LANED when nothing runs in it */
    CONTROL_LANE_NOTIFY = 44, /* descriptor of the executor's end of a lane's notice socket: LANE follows at once */
    /* executor -> wsd */
    CONTROL_READY = 65, /* the pool runs; number: workers */
    /* number: plugin number; error: 0 or a positive errno: ENOENT not found, ENOEXEC no plugin or another ABI, EACCES
     * not permitted, ELIBBAD cannot be loaded or its init failed, with the words as text. On 0: text is name NUL
     * version NUL help NUL path NUL build NUL; flags: a digest of the file; functions: count; that many FUNCTION
     * packets follow */
    CONTROL_LOADED = 66,
    CONTROL_FUNCTION = 67, /* number: plugin number; functions: index; flags; text: name NUL help NUL */
    CONTROL_OPEN = 68,     /* slot, generation, number: serial; text: path -> OPENED */
    CONTROL_MESSAGE = 69,  /* slot, generation, number: level; text: a log line of the job */
    CONTROL_ASKED = 70,    /* number: serial; error: 0 or a positive errno; functions, flags: by what was asked */
    /* number: of the lane; functions: enum control_laned, or the number that was bound; error: 0 or a positive errno:
     * ENOSYS: this kernel cannot; EPROTO, later: its client broke a rule, so that the lane was closed */
    CONTROL_LANED = 90,
    CONTROL_UNSAFE = 71, /* instead of READY, and then it ends: it cannot confine itself; text: why */
    /* Instead of READY, and then it ends: it cannot start. error: a positive errno; text: why, with the limit that
     * explains it. */
    CONTROL_FAILED = 72,
    /* descriptor: a stream socket to the process that starts and ends commands from now on. When that process reads the
     * end of file, it ends all commands. When wsd reads the end of file, all of them are gone. */
    CONTROL_REAPER = 73,
    CONTROL_SPOILT = 74,  /* later jobs should get a fresh process; text: what jobs have left in this one */
    CONTROL_LOADING = 75, /* number: plugin number; that LOAD is being done now. LOADED follows */
};

/* What wsd asks for, and what it gets back in functions and flags. Answered in the order of asking. */
enum control_ask {
    ASK_WORKERS = 1,     /* descriptor: an array of struct control_worker; functions: workers in force; flags: bytes;
                          * slot: open descriptors, 0: not known */
    ASK_SET_WORKERS = 2, /* flags: so many from now on; functions: workers in force */
    ASK_TRACE_START = 3, /* flags: 0: events; else a profile, with so many samples in a second of CPU time */
    /* descriptor: the trace, a JSON object a line, or the profile, a folded stack a line (executor/profile-text.h); flags:
     * the executor's number, then bytes; functions: lost events or samples. ENOSPC: the descriptor was too small for the
     * rest */
    ASK_TRACE_STOP = 4,
    ASK_TRACE_DROP = 5, /* stops, and drops the trace */
    ASK_HEALTH = 6,     /* asks for a sign of life */
    /* text: the id of a job, 32 hexadecimal digits. descriptor: where its workers stand, as text; flags: bytes. ENOENT:
     * no worker runs it now */
    ASK_STACK = 7,
    ASK_LAST = ASK_STACK,
};

enum control_laned { LANED_OPEN = 0xffff0000u, LANED_CLOSED = 0xffff0001u };

#define CONTROL_WORKERS_MAX 4096u        /* records: workers, retired ones and guests */
#define CONTROL_TRACE_MAX   (256u << 20) /* bytes of a trace */
#define CONTROL_STACK_MAX   (256u << 10) /* bytes of the stacks of one job */

/* The counters of one worker, in this order. */
#define CONTROL_COUNTERS(x)                                                                                            \
    x(roots) x(ready) x(published) x(stolen) x(failed_steals) x(parks) x(wakeups) x(helped) x(overflows) x(revoked)    \
        x(cpu_usec) x(blocked)
enum {
#define CONTROL_COUNTER_(name) CONTROL_COUNT_##name,
    CONTROL_COUNTERS(CONTROL_COUNTER_) CONTROL_N_COUNTERS
#undef CONTROL_COUNTER_
};

enum control_worker_kind { CONTROL_WORKER = 1, CONTROL_RETIRED = 2, CONTROL_GUEST = 3 };

struct control_worker {
    uint32_t index;
    uint32_t kind; /* enum control_worker_kind */
    uint32_t cpu;  /* that it is pinned to, plus 1; 0: to none */
    uint32_t reserved;
    uint64_t counters[CONTROL_N_COUNTERS];
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

/* SCM_MAX_FD: as many as come with a packet. With less room, the kernel would close the others here and now. */
#define CONTROL_FDS_MAX 253

/* A packet for sendmsg(2) or recvmsg(2). It points into itself. */
struct control_packet {
    struct iovec piece;
    struct msghdr message;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(CONTROL_FDS_MAX * sizeof(int))];
    };
};

/* For callers that send and receive by themselves. A call of control_pack() makes the packet that control_send() sends,
 * and returns 0 or -EINVAL. A call of control_room() makes room for a packet; the packet's bytes come into *c. After n
 * >= 0 bytes have come, control_unpack() returns what control_receive() returns, and the packet is *c. [any] */
int control_pack(struct control_packet *p, const struct control *c, int fd);
void control_room(struct control_packet *p, struct control *c);
int control_unpack(struct control_packet *p, ssize_t n, uint64_t owner, int *ret_fd);

/* Sends one packet, with a descriptor unless fd is -1. Returns 0, -EAGAIN (only with nonblocking descriptors), -EPIPE,
 * .. [any] */
int control_send(int socket, const struct control *c, int fd);

/* Receives one packet into *ret. Its text is "" if the packet has none. Sets *ret_fd to -1, or to a descriptor
 * (close-on-exec) that the caller owns. Descriptors that are not handed out are those of `owner`, as for async_close().
 * Returns 0; -EAGAIN; -ECONNRESET at the end; -EBADMSG if the packet is malformed (text not ending in NUL, sizes, two
 * descriptors). [any, one at a time]
 */
int control_receive(int socket, uint64_t owner, struct control *ret, int *ret_fd);
