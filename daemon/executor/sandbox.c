/* SPDX-License-Identifier: Apache-2.0
 *
 * sandbox.c: the order in which an executor confines itself, its capabilities and its limits.
 * Owns nothing: what is done here is the process's for good. [main, before threads]
 * Keeps: what is required and does not hold ends the executor before a plugin is loaded.
 * Does not choose what is wanted: wsd's configuration does. What it does not bound is in README.md. */
#include "executor/sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "executor/landlock.h"
#include "executor/syscall-filter.h"
#include "executor/verify.h"

#define CAPABILITIES_MAX 64

/* --- what is wanted ----------------------------------------------------------------------------------------------- */

static int parse_number(const char *text, uint64_t *ret)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-')
        return -EINVAL;
    *ret = n;
    return 0;
}

static int parse_one(struct sandbox *s, const char *key, char *value)
{
    uint64_t n;

    if (strcmp(key, "deny") == 0) {
        s->deny = value;
        return 0;
    }
    if (parse_number(value, &n) < 0)
        return -EINVAL;
    if (strcmp(key, "required") == 0)
        s->required = n;
    else if (strcmp(key, "commands") == 0)
        s->commands = n;
    else if (strcmp(key, "children") == 0)
        s->children = n;
    else if (strcmp(key, "core") == 0)
        s->core_size = n;
    else if (strcmp(key, "memory") == 0)
        s->memory = n;
    else
        return -EINVAL;
    return 0;
}

int sandbox_parse(struct sandbox *ret, char *text)
{
    static char nothing[] = "";
    struct sandbox s = {.required = true, .deny = nothing};

    while (text && !s.writable) {
        char *key = text, *value = strchr(text, '=');

        if (!value)
            return -EINVAL;
        *value++ = 0;
        if (strcmp(key, "writable") == 0) { /* the last one: directories may have commas */
            s.writable = value;
            break;
        }
        text = strchr(value, ',');
        if (text)
            *text++ = 0;
        if (parse_one(&s, key, value) < 0)
            return -EINVAL;
    }
    if (!s.writable)
        return -EINVAL;
    *ret = s;
    return 0;
}

/* --- capabilities and limits -------------------------------------------------------------------------------------- */

int capabilities_drop(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    /* Only a process with CAP_SETPCAP can empty the bounding set; for others no_new_privs makes it meaningless. */
    for (int i = 0; i < CAPABILITIES_MAX && (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0 || errno != EINVAL); i++)
        ;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int limit_core(const struct sandbox *s)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_CORE, &limit) < 0)
        return -errno;
    if (limit.rlim_max > s->core_size) /* what was there already is as far as it goes */
        limit.rlim_max = s->core_size;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_CORE, &limit) < 0)
        return -errno;
    /* the kernel writes no core of what may not be looked into */
    return prctl(PR_SET_DUMPABLE, s->core_size > 0) < 0 ? -errno : 0;
}

int sandbox_limit_memory(const struct sandbox *s)
{
    unsigned long size, resident, shared, text, library, data;
    struct rlimit limit;

    if (!s->memory)
        return 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return -errno;
    int n = fscanf(f, "%lu %lu %lu %lu %lu %lu", &size, &resident, &shared, &text, &library, &data);
    fclose(f);
    if (n != 6)
        return -EIO;
    /* RLIMIT_DATA counts what is private and can be written: heaps, stacks. RLIMIT_AS would count the rings, mapped
     * inputs and what malloc() only reserves, 64 MiB a thread. */
    uint64_t wanted = s->memory + (uint64_t)data * (uint64_t)sysconf(_SC_PAGESIZE);
    if (getrlimit(RLIMIT_DATA, &limit) < 0)
        return -errno;
    limit.rlim_cur = limit.rlim_max = MIN(wanted, limit.rlim_max); /* a tighter one that was inherited stays */
    return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* NULL, or the part that could not be had, with *ret_error. */
static const char *enter(const struct sandbox *s, int version, char where[static LANDLOCK_WHERE], int *ret_error)
{
    const char *failed = NULL;
    int r;

    /* each is attempted, also if another has failed and is not required */
    if ((r = limit_core(s)) < 0) {
        failed = "core size";
        *ret_error = r;
    }
    if ((r = capabilities_drop()) < 0) {
        failed = "capabilities";
        *ret_error = r;
    }
    if (version < 0 || (version > 0 && (r = landlock_enter(s, version, where)) < 0)) {
        failed = where;
        *ret_error = version < 0 ? version : r;
    }
    /* last: it refuses some of what the others need */
    if ((r = syscall_filter_enter(s, !landlock_keeps_signals(version) && !s->children)) < 0) {
        failed = "seccomp";
        *ret_error = r;
    }
    return failed;
}

int sandbox_enter(const struct sandbox *s, char error[static SANDBOX_ERROR])
{
    char where[LANDLOCK_WHERE] = "Landlock";
    int version = landlock_version(), r;
    const char *failed = NULL, *wrong;
    struct witness witness;

    r = witness_begin(&witness);
    if (r < 0)
        failed = "nobody to try it on";
    const char *missing = enter(s, version, where, &r);
    if (missing)
        failed = missing;
    if (failed) {
        snprintf(error, SANDBOX_ERROR, "%s: %s", failed, strerror(-r));
    } else {
        wrong = verify(s, MAX(version, 0), witness.pid);
        snprintf(error, SANDBOX_ERROR, "%s", wrong ? wrong : "");
        failed = wrong;
    }
    witness_end(&witness);
    if (!failed)
        return 0;
    if (s->required)
        return -EPERM;
    log_warning("not confined as it should be: %s: going on, since [sandbox] required = no", error);
    return 0;
}
