/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.c: the reaper of an executor: this program once more, in the same sandbox (host/reaper.h).
 * Owns the one struct commands of the process.
 * Keeps: wsd has one end of the reaper's life, a socket pair, before the reaper starts a command. This process keeps
 * neither end. So the end of file there says that reaper and keepers are gone, and with them everything of their
 * commands.
 * Does not fork: this process may be large. */
#include "executor/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/descendants.h"
#include "host/command.h"
#include "host/reaper.h"
#include "ring/control.h"

#define FD_HIGH 16 /* above the numbers that a reaper gets, so that no dup2 tramples on a source */

extern char **environ;

static struct commands commands;
static int control; /* [const after init] */

/* 0 or a negative errno. */
static int spawn_reaper(int socket, int life, pid_t *ret_pid)
{
    char parent[16];
    char *argv[] = {(char[]){REAPER_NAME}, parent, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;

    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int r = posix_spawn_file_actions_adddup2(&actions, socket, REAPER_FD_SOCKET);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(&actions, life, REAPER_FD_LIFE);
    if (r == 0)
        r = posix_spawn_file_actions_addclosefrom_np(&actions, REAPER_FD_LIFE + 1);
    if (r == 0) /* no signal reaches it, from its first instruction on */
        r = posix_spawnattr_setsigmask(&attributes, &all);
    if (r == 0)
        r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (r == 0)
        r = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

static int start_reaper(int socket, pid_t *ret_pid, void *context)
{
    const struct control c = {.kind = CONTROL_REAPER};
    _cleanup_(close_fdp) int wsds = -1, its = -1, high = -1;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    wsds = pair[0];
    its = fcntl(pair[1], F_DUPFD_CLOEXEC, FD_HIGH);
    close(pair[1]);
    high = its < 0 ? -1 : fcntl(socket, F_DUPFD_CLOEXEC, FD_HIGH);
    if (high < 0)
        return -errno;
    int r = control_send(control, &c, wsds);
    return r < 0 ? r : spawn_reaper(high, its, ret_pid);
}

void executor_commands_init(int control_fd)
{
    control = control_fd;
    commands_init(&commands, start_reaper, NULL);
}

int executor_command(const struct wsd_command *command)
{
    return commands_run(&commands, command);
}

bool executor_command_reap(pid_t ended)
{
    return commands_reap(&commands, ended);
}
