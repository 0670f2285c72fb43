/* SPDX-License-Identifier: Apache-2.0
 *
 * region.c: pieces of shared memory.
 * Owns nothing: descriptors and mappings are the caller's. [any]
 * Keeps: what is mapped cannot shrink, so that no look at it is a SIGBUS.
 * Does not know what lies in them. */
#include "ring/region.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

int region_new(const char *name, uint64_t size, int seals, int *ret_fd, void **ret_map)
{
    _cleanup_(close_fdp) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)size) < 0)
        return -errno;
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals) < 0) {
        int r = -errno;

        munmap(map, size);
        return r;
    }
    *ret_fd = TAKE_FD(fd);
    *ret_map = map;
    return 0;
}

int region_map(int fd, int protection, uint64_t least, void **ret_map, uint64_t *ret_size)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    /* sealed against shrinking: a page that goes away would be a SIGBUS in any reader */
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return -EBADMSG;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size < 0 || (uint64_t)st.st_size < least)
        return -EBADMSG;
    void *map = mmap(NULL, (size_t)st.st_size, protection, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    *ret_map = map;
    *ret_size = (uint64_t)st.st_size;
    return 0;
}
