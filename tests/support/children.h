/* SPDX-License-Identifier: Apache-2.0
 *
 * children.h: the children of a process, whichever of its threads has started them. wsd has a thread for that.
 */
#pragma once

#include <glob.h>
#include <stdio.h>
#include <sys/types.h>

/* Writes at most `most` of them. Returns how many. */
static inline unsigned children_of(pid_t pid, pid_t children[], unsigned most)
{
    char pattern[64];
    glob_t found;
    unsigned n = 0;

    snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/children", (int)pid);
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *f = fopen(found.gl_pathv[i], "re");

        while (f && n < most && fscanf(f, "%d", &children[n]) == 1)
            n++;
        if (f)
            fclose(f);
    }
    globfree(&found);
    return n;
}
