/* SPDX-License-Identifier: Apache-2.0
 *
 * inherit.c: runs a command in a state that a parent may leave behind.
 *
 *     inherit STATE... -- COMMAND [ARGUMENT...]
 *
 *     close=FD                 the descriptor is closed
 *     ignore=SIGNAL            by its name without SIG, or all
 *     block=SIGNAL
 *     limit=NAME:SOFT[:HARD]   of getrlimit(2), without RLIMIT_; numbers with K, M or G, or unlimited; HARD is SOFT
 *                              where it is missing
 *     user=UID                 user and group; states after it have no more rights
 *     groups=N                 N supplementary groups, from 100000 on
 *     subreaper                orphans below it become its children
 *     pid1                     process 1 of a new PID namespace, with a /proc of its own; needs root
 *     hide=DIRECTORY           an empty file system in its place, in a mount namespace of its own; needs root
 *
 * States come into force in their order. Its exit status is the command's; 99 where a state cannot be set up. */
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_STATE 99
#define GROUP      100000u

static const struct {
    const char *name;
    enum __rlimit_resource resource;
} limits[] = {
    {"AS", RLIMIT_AS},           {"CPU", RLIMIT_CPU},           {"CORE", RLIMIT_CORE},
    {"DATA", RLIMIT_DATA},       {"FSIZE", RLIMIT_FSIZE},       {"LOCKS", RLIMIT_LOCKS},
    {"MEMLOCK", RLIMIT_MEMLOCK}, {"MSGQUEUE", RLIMIT_MSGQUEUE}, {"NICE", RLIMIT_NICE},
    {"NOFILE", RLIMIT_NOFILE},   {"NPROC", RLIMIT_NPROC},       {"RSS", RLIMIT_RSS},
    {"RTPRIO", RLIMIT_RTPRIO},   {"RTTIME", RLIMIT_RTTIME},     {"SIGPENDING", RLIMIT_SIGPENDING},
    {"STACK", RLIMIT_STACK},
};

_Noreturn static void die(const char *state)
{
    dprintf(STDERR_FILENO, "inherit: %s: %s\n", state, strerror(errno));
    _exit(EXIT_STATE);
}

static void each_signal(const char *name, void (*act)(int))
{
    for (int s = 1; s < NSIG; s++)
        if (strcmp(name, "all") == 0 || (sigabbrev_np(s) && strcmp(sigabbrev_np(s), name) == 0))
            act(s);
}

static void ignore(int number)
{
    struct sigaction action = {.sa_handler = SIG_IGN};

    (void)sigaction(number, &action, NULL); /* some cannot be */
}

static void block(int number)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static rlim_t number(const char *text, char **ret_end)
{
    if (strncmp(text, "unlimited", 9) == 0) {
        *ret_end = (char *)(uintptr_t)text + 9;
        return RLIM_INFINITY;
    }
    rlim_t n = strtoull(text, ret_end, 10);
    const char *unit = **ret_end ? strchr("KMG", **ret_end) : NULL;
    if (unit) {
        ++*ret_end;
        n <<= unit[0] == 'K' ? 10 : unit[0] == 'M' ? 20 : 30;
    }
    return n;
}

static void limit(const char *state, const char *value)
{
    size_t n = strcspn(value, ":");
    char *end;

    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (strlen(limits[i].name) == n && strncmp(limits[i].name, value, n) == 0 && value[n]) {
            struct rlimit l = {.rlim_cur = number(value + n + 1, &end)};

            l.rlim_max = *end == ':' ? number(end + 1, &end) : l.rlim_cur;
            if (setrlimit(limits[i].resource, &l) < 0)
                die(state);
            return;
        }
    errno = EINVAL;
    die(state);
}

static void private_mounts(const char *state)
{
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        die(state);
}

/* The parent passes on what ends it, and how the child ended. */
static pid_t child;

static void pass(int signal)
{
    kill(child, signal);
}

static void pid1(const char *state)
{
    int status;

    private_mounts(state);
    if (unshare(CLONE_NEWPID) < 0 || (child = fork()) < 0)
        die(state);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (mount("proc", "/proc", "proc", 0, NULL) < 0)
            die(state);
        return;
    }
    signal(SIGTERM, pass);
    signal(SIGINT, pass);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            die(state);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void groups(const char *state, unsigned n)
{
    gid_t *list = calloc(n + 1, sizeof(*list));

    for (unsigned i = 0; list && i < n; i++)
        list[i] = GROUP + i;
    if (!list || setgroups(n, list) < 0)
        die(state);
    free(list);
}

static void enter(const char *state)
{
    const char *value = strchr(state, '=');

    value = value ? value + 1 : "";
    if (strncmp(state, "close=", 6) == 0)
        close(atoi(value));
    else if (strncmp(state, "ignore=", 7) == 0)
        each_signal(value, ignore);
    else if (strncmp(state, "block=", 6) == 0)
        each_signal(value, block);
    else if (strncmp(state, "limit=", 6) == 0)
        limit(state, value);
    else if (strncmp(state, "groups=", 7) == 0)
        groups(state, (unsigned)atoi(value));
    else if (strncmp(state, "user=", 5) == 0) {
        gid_t id = (gid_t)atoi(value);

        if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
            die(state);
    } else if (strcmp(state, "subreaper") == 0) {
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
            die(state);
    } else if (strcmp(state, "pid1") == 0)
        pid1(state);
    else if (strncmp(state, "hide=", 5) == 0) {
        private_mounts(state);
        if (mount("tmpfs", value, "tmpfs", 0, NULL) < 0)
            die(state);
    } else {
        errno = EINVAL;
        die(state);
    }
}

int main(int argc, char **argv)
{
    int at = 1;

    for (; at < argc && strcmp(argv[at], "--") != 0; at++)
        enter(argv[at]);
    if (at + 1 >= argc) {
        errno = EINVAL;
        die("-- COMMAND");
    }
    execvp(argv[at + 1], argv + at + 1);
    dprintf(STDERR_FILENO, "inherit: %s: %s\n", argv[at + 1], strerror(errno));
    return EXIT_STATE;
}
