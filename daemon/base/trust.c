/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.c: walks a path, and looks at each directory on the way.
 * Owns nothing. [any]
 * Keeps: what is returned is what was looked at: no name is resolved twice.
 * Does not judge what stands at the end: trust_only_ours() does. */
#include "base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define LINKS_MAX 40 /* the kernel's own limit */

static bool is_ours(const struct stat *st)
{
    return st->st_uid == 0 || st->st_uid == geteuid();
}

/* In a directory like /tmp only the owner of a name removes it. entry: NULL where the name is free. */
static bool stays(const struct stat *directory, const struct stat *entry)
{
    return trust_only_ours(directory) ||
           (is_ours(directory) && directory->st_mode & S_ISVTX && (!entry || is_ours(entry)));
}

/* What is left to walk: text and then the rest. */
static int prepend(char left[static PATH_MAX], const char *text, const char *rest)
{
    char joined[PATH_MAX];
    int n = snprintf(joined, sizeof(joined), "%s/%s", text, rest);

    if (n < 0 || (size_t)n >= sizeof(joined))
        return -ENAMETOOLONG;
    memcpy(left, joined, (size_t)n + 1);
    return 0;
}

static int read_link(int fd, char ret[static PATH_MAX])
{
    ssize_t n = readlinkat(fd, "", ret, PATH_MAX - 1);

    if (n < 0)
        return -errno;
    ret[n] = 0;
    return 0;
}

static void name_directory(int fd, char ret_where[static PATH_MAX])
{
    char link[32];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, ret_where, PATH_MAX - 1);
    ret_where[MAX(n, 0)] = 0;
}

static int open_root(void)
{
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int trust_open(const char *path, char ret_where[static PATH_MAX])
{
    char left[PATH_MAX], text[PATH_MAX] = "";
    int n_links = 0;

    ret_where[0] = 0;
    if (*path != '/' && !getcwd(text, sizeof(text)))
        return -errno;
    int r = prepend(left, text, path);
    _cleanup_(close_fdp) int at = r < 0 ? r : open_root();
    for (char *next = left; at >= 0;) {
        struct stat directory, st;
        char *name = next + strspn(next, "/"), *end = name + strcspn(name, "/");

        if (!*name)
            return TAKE_FD(at);
        next = *end ? end + 1 : end;
        *end = 0;
        _cleanup_(close_fdp) int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;
        if (fstat(at, &directory) < 0)
            return -errno;
        if ((r == 0 || r == -ENOENT) && !stays(&directory, r == 0 ? &st : NULL)) {
            name_directory(at, ret_where);
            return -EPERM;
        }
        if (r < 0)
            return r;
        if (!S_ISLNK(st.st_mode)) {
            close_fd(at);
            at = TAKE_FD(fd);
            continue;
        }
        if (++n_links > LINKS_MAX)
            return -ELOOP;
        r = read_link(fd, text);
        if (r == 0)
            r = prepend(left, text, next);
        if (r < 0)
            return r;
        next = left;
        if (*text == '/') {
            close_fd(at);
            at = open_root();
        }
    }
    return at;
}
