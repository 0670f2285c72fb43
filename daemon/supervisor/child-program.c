/* SPDX-License-Identifier: Apache-2.0
 *
 * child-program.c: how wsd makes a process of wsd-executor or wsd-spawn.
 * Owns nothing: the process is the caller's. [loop]
 * Keeps: a program gets the descriptors that it is given, and of wsd's environment what its runtime may need.
 * Does not watch or reap (child.c, helper.c). */
#include "supervisor/child-program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "spawner/packet.h"
#include "supervisor/orphans.h"
#include "supervisor/starter.h"

#define FD_FIRST 3  /* of an executor, and of the helper */
#define FD_HIGH  16 /* above every number that the child gets, so that no dup2 tramples on a source */

#define TUNABLES_ROOM 80u

extern char **environ;

/* The executor inherits nothing of wsd's environment but what the machine's owner may have set for its runtime. */
static bool environment_passes(const char *entry, bool manager)
{
    static const char *const managers[] = {"NOTIFY_SOCKET=", "WATCHDOG_USEC="};
    static const char *const names[] = {
        "PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", "LSAN_OPTIONS=", "LD_LIBRARY_PATH=", "MALLOC_"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(managers) && manager; i++)
        if (strncmp(entry, managers[i], strlen(managers[i])) == 0)
            return true;
    return false;
}

/* manager: with what the service manager says to a process of its own. */
static char **environment_new(char tunables[static TUNABLES_ROOM], uint64_t static_tls, bool manager)
{
    size_t n = 0, at = 0;

    while (environ[n])
        n++;
    char **ret = calloc(n + 2, sizeof(char *));
    if (!ret)
        return NULL;
    /* the C library lays out the static block of a thread once, when the process starts */
    snprintf(tunables, TUNABLES_ROOM, "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=%llu",
             (unsigned long long)static_tls);
    ret[at++] = tunables;
    for (size_t i = 0; i < n; i++)
        if (environment_passes(environ[i], manager))
            ret[at++] = environ[i];
    return ret;
}

void child_program_arguments(const struct child_program *program, struct child_program_arguments *ret)
{
    static char any[] = "any", dirs[] = "dirs", pin[] = "pin", unpinned[] = "free";

    snprintf(ret->level, sizeof(ret->level), "%d", program->log_level);
    snprintf(ret->stack, sizeof(ret->stack), "%llu", (unsigned long long)program->stack_size);
    /* posix_spawn() does not write to its arguments */
    ret->argv[0] = (char *)(uintptr_t)program->plugin_dirs;
    ret->argv[1] = program->any_path ? any : dirs;
    ret->argv[2] = ret->level;
    ret->argv[3] = program->pin ? pin : unpinned;
    ret->argv[4] = ret->stack;
}

int child_program_spawn(const struct child_program *program, const int *fds, size_t n, int words, int binary_fd,
                        char *const *argv, pid_t *ret_pid)
{
    char tunables[TUNABLES_ROOM];
    _cleanup_(freep) char **environment = environment_new(tunables, program->static_tls, false);

    if (!environment || orphans_reserve() < 0)
        return -ENOMEM;
    const struct starter_program p = {
        .fds = fds, .n = n, .words = words, .binary_fd = binary_fd, .argv = argv, .environment = environment};
    int r = starter_start(program->starter, &p, ret_pid);
    if (r == 0)
        orphans_spare(*ret_pid);
    return r;
}

int child_program_become(const struct child_program *program, const int *fds, size_t n, const char *file,
                         char *const *argv)
{
    char tunables[TUNABLES_ROOM];
    _cleanup_(freep) char **environment = environment_new(tunables, program->static_tls, true);
    int high[SPAWN_FDS];

    if (!environment)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_HIGH)) < 0)
            return -errno;
    for (size_t i = 0; i < n; i++)
        if (dup2(high[i], FD_FIRST + (int)i) < 0)
            return -errno;
    execve(file, argv, environment);
    return -errno;
}
