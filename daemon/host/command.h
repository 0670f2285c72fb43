/* SPDX-License-Identifier: Apache-2.0
 *
 * command.h: commands of jobs, as wsd_job_command() starts them: asked of the reaper (reaper.h), which is started for
 * the first one. One for each process.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <wsd/plugin.h>

struct commands {
    pthread_mutex_t lock;
    int socket;   /* [lock] -1: none is there */
    pid_t reaper; /* [lock] */
    /* Starts a reaper as a child of this process, with this socket, which stays the caller's. 0 or a negative errno.
     * [any] */
    int (*start)(int socket, pid_t *ret_pid, void *context);
    void *context;
};

void commands_init(struct commands *c, int (*start)(int socket, pid_t *ret_pid, void *context), void *context);
/* Reaps a child that has ended, where that is a reaper that was killed or a keeper that one has left. False: it is
 * none. [any] */
bool commands_reap(struct commands *c, pid_t ended);
/* The reaper sees it, and ends. */
void commands_deinit(struct commands *c);
/* As wsd_job_command(). [any] */
int commands_run(struct commands *c, const struct wsd_command *command);
