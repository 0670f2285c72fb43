/* SPDX-License-Identifier: Apache-2.0
 *
 * swap.c: changes what a plugin's name means, as fast as it can, until it is told to end.
 *
 *     swap NAME GOOD BAD...
 *
 * NAME becomes, in turns, a hard link of GOOD, of each BAD, and a symbolic link to each. Between the two GOOD is
 * writable for all users for a moment, and so is the directory of NAME. The file at NAME is always complete: each
 * change is one rename. */
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void on_term(int signo)
{
    over = signo;
}

static bool become(const char *name, const char *file, bool symbolic)
{
    char fresh[4096];

    snprintf(fresh, sizeof(fresh), "%s.fresh", name);
    unlink(fresh);
    if ((symbolic ? symlink(file, fresh) : link(file, fresh)) < 0 || rename(fresh, name) < 0) {
        fprintf(stderr, "swap: %s: %s\n", file, strerror(errno));
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    char copy[4096];

    if (argc < 4)
        return 64;
    snprintf(copy, sizeof(copy), "%s", argv[1]);
    const char *directory = dirname(copy);
    signal(SIGTERM, on_term);
    for (unsigned long n = 0; !over; n++) {
        const char *file = argv[2 + n % (unsigned long)(argc - 2)];

        if (!become(argv[1], argv[2], false) || !become(argv[1], file, n & 1))
            return 74;
        if (n % 5 == 0 && (chmod(argv[2], 0666) < 0 || chmod(argv[2], 0644) < 0))
            return 74;
        if (n % 7 == 0 && (chmod(directory, 0777) < 0 || chmod(directory, 0755) < 0))
            return 74;
    }
    if (!become(argv[1], argv[2], false))
        return 74;
    return 0;
}
