/* SPDX-License-Identifier: Apache-2.0
 *
 * packet.h: the packets between wsd and wsd-spawn, the helper that starts executors under the uids of users. They go
 * over SOCK_SEQPACKET. Each packet is one structure of fixed size, with numbers and no text.
 *
 * The helper is started as
 *     wsd-spawn FIRST_ID PLUGIN_DIR[:PLUGIN_DIR...] PATHS LOG_LEVEL PIN STACK SANDBOX
 * Descriptor 3 is the socket, descriptor 4 is wsd-executor.
 * - If wsd has started the helper, the socket is connected to that wsd. There may then be descriptor 5: a file that the
 *   helper keeps open as long as anything is left of its executors.
 * - Otherwise the service manager owns the socket, which listens. The first client with the helper's own uid is wsd.
 *   Descriptor 5 may then be a cgroup for those of executors, which READY hands over.
 * Users and groups below FIRST_ID are refused. All arguments except FIRST_ID go to each executor as they are
 * (ring/control.h). So what executors may load and do is settled before the helper starts; a packet adds only the
 * number of workers and the memory limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SPAWN_FD_SOCKET   3
#define SPAWN_FD_EXECUTOR 4
#define SPAWN_FD_CGROUPS  5
#define SPAWN_FD_LEFT     5 /* of a helper that wsd has started */

/* a user in more groups gets no executor: with only some of the groups, the user's rights would differ */
#define SPAWN_GROUPS_MAX   4096u
#define SPAWN_CHILDREN_MAX 4096u
#define SPAWN_WORKERS_MAX  1024u
#define SPAWN_NO_GROUP     65534u /* the overflow gid, for a user without a group that may be given */
/* descriptors of a START: down, up, bell, control socket, words; then cgroup.procs if SPAWN_CGROUP is set */
#define SPAWN_FDS 5u
/* index of the one that is the executor's stdout and stderr from its first instruction on */
#define SPAWN_WORDS   4
#define SPAWN_FDS_MAX 6u

enum spawn_kind {
    /* wsd -> helper */
    SPAWN_START = 1, /* -> STARTED, and EXITED where that has no error */
    SPAWN_KILL = 2,  /* serial: SIGKILL; a child that has ended is fine */
    SPAWN_PING = 3,  /* serial, any number but 0 -> PONG, after the answers to earlier packets */
    /* helper -> wsd */
    SPAWN_READY = 64,   /* the first packet where wsd has connected; with the cgroup, if there is one, as descriptor */
    SPAWN_STARTED = 65, /* error: 0, pid and a pidfd as descriptor; or a positive errno */
    SPAWN_EXITED = 66,  /* code, status: as waitid(2) tells; the pid is free */
    SPAWN_PONG = 67,    /* serial of the PING */
};

enum spawn_flag {
    /* the child goes into the cgroup; its cgroup.procs, open for writing, is the last descriptor */
    SPAWN_CGROUP = 1u << 0,
};

struct spawn_request {
    uint32_t kind;
    uint32_t flags;  /* of enum spawn_flag; KILL, PING: 0, like all fields after serial */
    uint64_t serial; /* not 0; not that of a present child */
    uint64_t memory; /* bytes; 0: without limit */
    uint32_t workers;
    uint32_t uid, gid;
    uint32_t n_groups;
    uint32_t groups[SPAWN_GROUPS_MAX]; /* beyond n_groups: 0 */
};

struct spawn_reply {
    uint32_t kind;
    uint32_t error;
    uint64_t serial;
    int32_t pid;
    int32_t code, status;
    uint32_t reserved;
};

/* Checks a packet. Returns 0, or the positive errno of a refusal: EBADMSG where the packet cannot even be answered,
 * EINVAL, or EPERM (a user or a group below first_id). n_fds: descriptors that came with it. */
int spawn_check(const struct spawn_request *q, size_t size, uint32_t n_fds, uint32_t first_id);
