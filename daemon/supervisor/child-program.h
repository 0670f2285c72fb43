/* SPDX-License-Identifier: Apache-2.0
 *
 * child-program.h: how wsd makes a process of wsd-executor or wsd-spawn: with which arguments, environment and
 * descriptors. Everything here is [loop].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct starter;

/* What all executors of a wsd have in common. */
struct child_program {
    struct starter *starter; /* starts wsd's own; NULL: nothing is started */
    int predecessor_fd;      /* see predecessor.h; -1: none */
    int binary_fd;           /* wsd-executor, held open so that an upgrade on disk cannot mix versions */
    const char *plugin_dirs; /* colon-separated */
    bool any_path, pin;
    int log_level;
    uint64_t stack_size;
    uint64_t static_tls; /* bytes: see [executor] static-tls in wsd.conf(5) */
    const char *sandbox; /* in the format of ring/control.h, without the memory */
};

/* The arguments of an executor after WORKERS, made from the program. The texts live in `ret`. */
struct child_program_arguments {
    char level[16], stack[24];
    char *argv[5]; /* PLUGIN_DIRS PATHS LOG_LEVEL PIN STACK */
};
void child_program_arguments(const struct child_program *program, struct child_program_arguments *ret);
/* Becomes another program, with n descriptors as 3, 4, ..., and the part of wsd's environment that is passed on.
 * Returns only on failure: a negative errno. */
int child_program_become(const struct child_program *program, const int *fds, size_t n, const char *file,
                         char *const *argv);
/* Starts a program from an open file. It gets n descriptors, at most SPAWN_FDS + 1, as 3, 4, .... It gets default
 * signals, and the part of wsd's environment that is passed on. words: index of the descriptor that is its stdout and
 * stderr too; -1: it has wsd's. Returns 0 or a negative errno. */
int child_program_spawn(const struct child_program *program, const int *fds, size_t n, int words, int binary_fd,
                        char *const *argv, pid_t *ret_pid);
