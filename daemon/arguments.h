/* SPDX-License-Identifier: Apache-2.0
 *
 * arguments.h: the command line of wsd. [before the loop, and beside it at a reload]
 */
#pragma once

#include "configuration/configuration.h"

enum mode { MODE_RUN, MODE_CHECK, MODE_PRINT, MODE_SPAWN };

/* Writes a line for the user that has started it. */
__attribute__((format(printf, 1, 2))) void print_error(const char *format, ...);
/* Applies the command line over the files. Returns 0 or the exit code. */
int arguments_apply(struct config *c, int argc, char **argv, const char **ret_file, enum mode *ret_mode);
/* Reads the files, then the command line. Returns 0, or the exit code with the words on stderr; -1: nothing more to
 * do. */
int arguments_load(struct config *c, int argc, char **argv, const char **ret_file, enum mode *ret_mode);
