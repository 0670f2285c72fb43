/* SPDX-License-Identifier: Apache-2.0
 *
 * reaper.h: the process that starts commands for an executor (or for `wsctl submit --local`), and ends them with all
 * that they have left.
 *
 *      executor ── reaper ── keeper ── command ── what it starts
 *                       └─── keeper ── command
 *
 * The reaper forks a keeper for each command. Both are child subreapers. A process that has lost its parent becomes a
 * child of the keeper, or of the reaper if the keeper was killed. So nothing escapes by setsid() or a double fork.
 *
 * A request is one byte on the reaper's socket (SOCK_SEQPACKET) with REAPER_FDS descriptors: the keeper's end of a
 * handle (SOCK_STREAM), then 0, 1 and 2 of the command. A struct reaper_request and its text follow on the handle. The
 * keeper answers with an int32_t: 0, or a positive errno if the command cannot be started. Later come one struct
 * wsd_command_end and, once nothing is left, the end of the file. An int32_t sent to the keeper is a signal for the
 * command's process group. Closing the handle is SIGKILL for all.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define REAPER_FD_SOCKET 3 /* of a reaper that is exec'ed; 4: life */
#define REAPER_FD_LIFE   4
#define REAPER_FDS       4u
#define REAPER_TEXT_MAX  (8u << 20)

struct reaper_request {
    uint32_t text_size;           /* directory NUL, arguments, environment, each with its NUL */
    uint32_t argc, n_environment; /* argc: at least 1 */
};

/* Serves until the other end of `socket` or of `life` (-1: there is none) is closed, or the process `parent` has ended.
 * Then it ends what is left, and the process. No other thread; allocates nothing. */
_Noreturn void reaper_run(int socket, int life, pid_t parent);
