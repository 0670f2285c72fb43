/* SPDX-License-Identifier: Apache-2.0
 *
 * landlock.c: the executor as a Landlock domain.
 * Processes outside of it cannot be inspected or, if the kernel supports that, signalled. No process in it makes
 * devices. What may be written to, and whether programs may be started, is as configured.
 * Owns nothing: the domain is the process's for good, and its children's. [main, before threads]
 * Keeps: nothing that was opened before is taken away: memfds, pipes, what clients hand over.
 * Does not restrict reading: plugins have tables and models wherever their authors put them. */
#include "executor/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define VERSION_LEAST    2 /* the first one forbids every rename between directories */
#define VERSION_TRUNCATE 3
#define VERSION_SCOPES   6

/* What Debian 12's header does not know yet. */
#define FS_TRUNCATE           (1ull << 14)
#define SCOPE_ABSTRACT_SOCKET (1ull << 0)
#define SCOPE_SIGNAL          (1ull << 1)

struct attributes {
    uint64_t fs, net, scoped;
};

#define FS_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define FS_WRITE_DIRECTORY                                                                                             \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |                    \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |                       \
     LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define FS_WRITE_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE)

int landlock_version(void)
{
    long r = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    if (r < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
    return r < VERSION_LEAST ? 0 : (int)r;
}

bool landlock_keeps_signals(int version)
{
    return version >= VERSION_SCOPES;
}

static int allow(int ruleset, const char *path, uint64_t access)
{
    _cleanup_(close_fdp) int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        rule.allowed_access &= FS_WRITE_FILE;
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

/* Writing: beneath the directories, and where it goes nowhere. */
static int allow_writing(int ruleset, const char *directories, uint64_t access, char *ret_where)
{
    static const char *const sinks[] = {"/dev/null", "/dev/zero", "/dev/full"};
    _cleanup_(freep) char *copy = strdup(directories);
    char *save = NULL;
    int r = copy ? 0 : -ENOMEM;

    for (size_t i = 0; i < ARRAY_SIZE(sinks) && r == 0; i++) {
        r = allow(ruleset, sinks[i], access);
        if (r == -ENOENT)
            r = 0;
    }
    for (char *d = copy ? strtok_r(copy, ":", &save) : NULL; d && r == 0; d = strtok_r(NULL, ":", &save)) {
        r = allow(ruleset, d, access);
        if (r < 0 && ret_where)
            snprintf(ret_where, LANDLOCK_WHERE, "[sandbox] writable in wsd.conf: %s", d);
    }
    return r;
}

int landlock_enter(const struct sandbox *s, int version, char *ret_where)
{
    bool everywhere = strcmp(s->writable, "/") == 0;
    uint64_t write = FS_WRITE_DIRECTORY | FS_WRITE_FILE;
    struct attributes a = {.fs = FS_DEVICES | LANDLOCK_ACCESS_FS_REFER};
    _cleanup_(close_fdp) int ruleset = -1;

    if (version < VERSION_TRUNCATE)
        write &= ~FS_TRUNCATE;
    if (!everywhere)
        a.fs |= write;
    if (!s->commands)
        a.fs |= LANDLOCK_ACCESS_FS_EXECUTE;
    if (landlock_keeps_signals(version))
        a.scoped = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;
    /* older kernels take the larger structure as long as what they do not know is zero */
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &a, sizeof(a), 0);
    if (ruleset < 0)
        return -errno;
    int r = everywhere ? allow(ruleset, "/", LANDLOCK_ACCESS_FS_REFER)
                       : allow_writing(ruleset, s->writable, write, ret_where);
    if (r < 0)
        return r;
    return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}
