/* SPDX-License-Identifier: Apache-2.0
 *
 * packet.h: what goes between wsd and wsd-spawn, the helper that starts executors under the uids of users. Over
 * SOCK_SEQPACKET; each packet is one structure of fixed size, with numbers and no text.
 *
 * The helper is started as
 *     wsd-spawn FIRST_ID PLUGIN_DIR[:PLUGIN_DIR...] PATHS LOG_LEVEL PIN STACK SANDBOX
 * with descriptors 3: the socket, 4: wsd-executor, and, where wsd has started it, perhaps 5: a file that it keeps open
 * as long as anything is left of its executors. The socket is connected to the wsd that started it; or it listens, the
 * service manager has it, and the first to connect who has the helper's own uid is wsd: then descriptor 5 may be a
 * cgroup to make those of executors in, which READY hands over. Users and groups below FIRST_ID are refused. All but
 * FIRST_ID is handed to each executor as it stands there (ring/control.h), so that what executors may load and do was
 * settled before the helper was there; a packet adds the number of workers and the memory limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SPAWN_FD_SOCKET   3
#define SPAWN_FD_EXECUTOR 4
#define SPAWN_FD_CGROUPS  5
#define SPAWN_FD_LEFT     5 /* of one that wsd has started */

/* who is in more of them gets no executor: with some of them he would have other rights */
#define SPAWN_GROUPS_MAX   4096u
#define SPAWN_CHILDREN_MAX 4096u
#define SPAWN_WORKERS_MAX  1024u
#define SPAWN_NO_GROUP     65534u /* the group of nobody: for who has none that may be given */
/* of a START: down, up, bell, control socket, words; then cgroup.procs where SPAWN_CGROUP is set */
#define SPAWN_FDS 5u
/* which of them is the stdout and stderr of the executor, from its first instruction on */
#define SPAWN_WORDS   4
#define SPAWN_FDS_MAX 6u

enum spawn_kind {
    /* wsd -> helper */
    SPAWN_START = 1, /* -> STARTED, and EXITED where that has no error */
    SPAWN_KILL = 2,  /* serial: SIGKILL; one that is not there any more is fine */
    SPAWN_PING = 3,  /* serial, any number but 0 -> PONG, behind the answers to what came before */
    /* helper -> wsd */
    SPAWN_READY = 64,   /* the first one where wsd has connected; with the cgroup, if there is one, as descriptor */
    SPAWN_STARTED = 65, /* error: 0, pid and a pidfd as descriptor; or a positive errno */
    SPAWN_EXITED = 66,  /* code, status: as waitid(2) tells; the pid is nobody's any more */
    SPAWN_PONG = 67,    /* serial of the PING */
};

enum spawn_flag {
    /* the child goes into the cgroup whose cgroup.procs, open for writing, is the last descriptor */
    SPAWN_CGROUP = 1u << 0,
};

struct spawn_request {
    uint32_t kind;
    uint32_t flags;  /* of enum spawn_flag; KILL, PING: 0, as all that follows serial */
    uint64_t serial; /* not 0; not that of a child that is there */
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

/* 0, or the positive errno with which it is refused: EBADMSG where it says nothing that could be answered, EINVAL,
 * EPERM (a user or a group below first_id). n_fds: descriptors that came with it. */
int spawn_check(const struct spawn_request *q, size_t size, uint32_t n_fds, uint32_t first_id);
