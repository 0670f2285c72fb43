/* SPDX-License-Identifier: Apache-2.0
 *
 * files.c: opens files that a job names, and takes in whole inputs.
 * Owns nothing but what it returns. [any]
 * Keeps: nothing but regular files and directories is opened for a job. What takes the place of one between the look and
 * the open is opened without waiting, and dropped.
 * Does not check permissions: it is only used where the process has the submitter's rights. */
#include "host/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define READ_FIRST (64u * 1024u)

static bool is_plain(const struct stat *st)
{
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mode == b->st_mode;
}

/* The short way, for what has bytes: looks first, then opens. Something else may have come there in between. It is not
 * kept, and its open does not wait. Any user can put a link to a device there, so links are not followed. To put a
 * device there, one has to own a directory that has one.
 * The files of /proc have no bytes, and O_NONBLOCK means something to some of them.
 * A descriptor, or -1: the careful way has to say. */
static int open_at_once(int at, const char *path)
{
    static const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                                        .resolve = RESOLVE_NO_SYMLINKS};
    _cleanup_(close_fdp) int fd = -1;
    struct stat seen, opened;

    if (fstatat(at, path, &seen, AT_SYMLINK_NOFOLLOW) < 0 || !is_plain(&seen) || seen.st_size == 0)
        return -1;
    fd = (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
    return fd >= 0 && fstat(fd, &opened) == 0 && is_same(&seen, &opened) ? TAKE_FD(fd) : -1;
}

/* The careful way, for each path. */
static int open_found(int at, const char *path)
{
    _cleanup_(close_fdp) int found = -1;
    char name[32];
    struct stat st;

    /* O_PATH finds the file without opening it: even O_NONBLOCK would start a watchdog or rewind a tape. */
    found = openat(at, path, O_PATH | O_CLOEXEC);
    if (found < 0 || fstat(found, &st) < 0)
        return -errno;
    if (!is_plain(&st))
        return -ENXIO;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", found);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

static int open_from(int at, const char *path)
{
    int fd = open_at_once(at, path);

    return fd >= 0 ? fd : open_found(at, path);
}

int files_open(const char *directory, const char *path)
{
    _cleanup_(close_fdp) int at = -1;
    char whole[PATH_MAX];

    if (!directory || path[0] == '/')
        return open_from(AT_FDCWD, path);
    /* The kernel finds both in one call where that fits. A path of nothing names no file, even behind a slash. */
    if (*path && (size_t)snprintf(whole, sizeof(whole), "%s/%s", directory, path) < sizeof(whole))
        return open_from(AT_FDCWD, whole);
    at = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return at < 0 ? -errno : open_from(at, path);
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
