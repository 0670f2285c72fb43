/* SPDX-License-Identifier: Apache-2.0
 *
 * seal.h: seals a memory file for good.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>

#define SEAL_TRIES 6 /* the kernel waits for 150 ms in each */

/* No byte of the file, nor its size, changes from now on. The kernel refuses that (EBUSY) as long as a page has a
 * reference that it cannot explain, and a scan of memory (DAMON, compaction) holds such references for moments. So this
 * tries again. Returns 0 or a negative errno. */
static inline int seal_memory(int fd)
{
    for (int i = 1; fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0; i++)
        if (errno != EBUSY || i == SEAL_TRIES)
            return -errno;
    return 0;
}
