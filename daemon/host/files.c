/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c: opens files that a job names, and takes in whole inputs.
 * Owns nothing but what it returns. [any]
 * Keeps: nothing but regular files and directories is ever opened for a job.
 * Does not check permissions: it is only used where the process has the submitter's rights. */
#include "host/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define READ_FIRST (64u * 1024u)

int files_open(const char *directory, const char *path)
{
    _cleanup_(close_fdp) int at = -1, found = -1;
    char name[32];
    struct stat st;

    if (directory && path[0] != '/') {
        at = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (at < 0)
            return -errno;
    }
    /* O_PATH finds the file without opening it: even O_NONBLOCK would start a watchdog or rewind a tape. */
    found = openat(at < 0 ? AT_FDCWD : at, path, O_PATH | O_CLOEXEC);
    if (found < 0 || fstat(found, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return -ENXIO;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", found);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

static int read_all(int fd, struct files_input *ret)
{
    _cleanup_(freep) char *data = NULL;
    size_t size = 0, room = 0;

    for (;;) {
        if (size == room) {
            room = room ? room * 2 : READ_FIRST;
            char *larger = realloc(data, room);
            if (!larger)
                return -ENOMEM;
            data = larger;
        }
        ssize_t n = read(fd, data + size, room - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t)n;
    }
    *ret = (struct files_input){.data = data, .size = size, .heap = data};
    data = NULL;
    return 0;
}

int files_read(int fd, struct files_input *ret)
{
    struct stat st;
    off_t at;

    if (fstat(fd, &st) < 0)
        return -errno;
    at = lseek(fd, 0, SEEK_CUR);
    /* Files of /proc say 0 and have bytes, so only what says more than that is mapped. */
    if (!S_ISREG(st.st_mode) || at < 0 || at >= st.st_size)
        return read_all(fd, ret);
    char *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return read_all(fd, ret);
    *ret = (struct files_input){
        .data = map + at, .size = (uint64_t)(st.st_size - at), .map = map, .map_size = (size_t)st.st_size};
    return 0;
}

void files_input_deinit(struct files_input *input)
{
    if (input->map)
        munmap(input->map, input->map_size);
    free(input->heap);
    *input = (struct files_input){0};
}
