/* SPDX-License-Identifier: Apache-2.0
 *
 * faulty.c: becomes wsd-executor, or wsd-spawn, with faults.so in it. wsd passes nothing of its environment to either
 * but what begins with MALLOC_ (and some more): MALLOC_LD_PRELOAD, MALLOC_FAULTS, MALLOC_FAULTS_FILE and
 * MALLOC_FAULTS_ALONE become what faults.c wants; which call fails is in that file. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const char *const names[] = {"MALLOC_LD_PRELOAD", "MALLOC_FAULTS", "MALLOC_FAULTS_FILE",
                                        "MALLOC_FAULTS_ALONE"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (getenv(names[i]))
            setenv(names[i] + strlen("MALLOC_"), getenv(names[i]), 1);
    setenv("FAULTS_NTH", "0", 1);
    execv(WSD_REAL_PROGRAM, argv);
    return 127;
}
