/* SPDX-License-Identifier: Apache-2.0
 *
 * left-behind.c: runs a command, and says what it has left running of wsd's programs.
 *
 *     left-behind COMMAND...
 *
 * It is a child subreaper, so all that the command starts stays below it. When the command has ended it writes two
 * kinds of result lines (see lib.sh): `FAIL left processes behind: NAME PID...` where $WSD, $EXECUTOR or $SPAWNER still
 * runs, and `used N s of CPU`. Then it kills all that is left. Its exit status is the command's. It ignores signals to
 * end: the command gets them with its process group.
 */
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descendants.h"
#include "children.h"

#define CHILDREN_MOST      1024
#define KILLED_WITHIN_MSEC 10000

static const char *const programs[] = {"WSD", "EXECUTOR", "SPAWNER"};

static bool is_ours(const char *exe)
{
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        const char *program = getenv(programs[i]);

        if (program && strcmp(program, exe) == 0)
            return true;
    }
    return false;
}

/* Only this process's own children: one that has lost its parent is among them, and any other is below one of them. */
static void name_children(void)
{
    static pid_t children[CHILDREN_MOST];
    unsigned n = children_of(getpid(), children, CHILDREN_MOST);
    bool found_one = false;

    for (unsigned i = 0; i < n; i++) {
        char link[64], exe[PATH_MAX];
        ssize_t size;

        snprintf(link, sizeof(link), "/proc/%d/exe", (int)children[i]);
        size = readlink(link, exe, sizeof(exe) - 1);
        if (size < 0)
            continue;
        exe[size] = '\0';
        if (!is_ours(exe))
            continue;
        if (!found_one)
            printf("FAIL left processes behind:");
        found_one = true;
        printf(" %s %d", strrchr(exe, '/') + 1, (int)children[i]);
    }
    if (found_one)
        putchar('\n');
}

int main(int argc, char *argv[])
{
    struct rusage usage;
    int status;
    pid_t pid, ended;

    if (argc < 2) {
        fputs("left-behind: a command is wanted\n", stderr);
        return 64;
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
        perror("left-behind: prctl");
        return 71;
    }
    pid = fork();
    if (pid == 0) {
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    if (pid < 0) {
        perror("left-behind: fork");
        return 71;
    }
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    do
        ended = waitpid(-1, &status, 0);
    while (ended != pid);

    name_children();
    descendants_end(NULL, KILLED_WITHIN_MSEC);
    if (getrusage(RUSAGE_CHILDREN, &usage) == 0)
        printf("used %ld s of CPU\n", (long)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec));
    if (fflush(stdout) != 0)
        return 74;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
