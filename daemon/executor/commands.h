/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.h: commands that jobs of this executor start.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <wsd/plugin.h>

/* [main, before threads] */
void executor_commands_init(int control_fd);
/* As wsd_job_command(). [any] */
int executor_command(const struct wsd_command *command);
/* As commands_reap(). [any] */
bool executor_command_reap(pid_t ended);
