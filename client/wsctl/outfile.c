/* SPDX-License-Identifier: Apache-2.0
 *
 * outfile.c: files for output.
 * Owns its descriptors, and the name of the sibling until it takes the file's place. One thread opens and closes.
 * Keeps: a file has, while its sibling is written, its old content or all of the new one. No sibling outlives wsctl,
 * unless that is killed without a signal that it can see. Does not sync: a file that was replaced just before a power
 * cut may be the old one, the new one, or empty. */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"

#define XATTR_MAX  65536u /* the kernel's own limit for a list of names, and for a value */
#define NAME_TRIES 100

/* --- siblings, and signals
 * -------------------------------------------------------------------------------------------- */

/* All that have a sibling. A signal handler reads it on the way out: it is whole at each moment. */
static _Atomic(struct outfile *) siblings;

void outfile_remove_all(void)
{
    for (const struct outfile *f = atomic_load(&siblings); f; f = f->next)
        unlink(f->temporary);
}

static void on_signal(int signal)
{
    outfile_remove_all();
    raise(signal); /* SA_RESETHAND: it ends us when this returns */
}

/* Where nothing else heeds the signals that end us. */
static void heed_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGALRM, SIGXCPU};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, old;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
}

static void remember(struct outfile *file)
{
    file->next = atomic_load(&siblings);
    atomic_store(&siblings, file);
}

/* Its sibling has another name, or is gone. */
static void unlist_sibling(struct outfile *file)
{
    struct outfile *before = atomic_load(&siblings);

    if (before == file) {
        atomic_store(&siblings, file->next);
    } else {
        while (before->next != file)
            before = before->next;
        before->next = file->next;
    }
    free(file->temporary);
    file->temporary = NULL;
}

/* Makes the sibling in the directory of path. Until it has the mode of the file that it replaces, only its owner may
 * read it. */
static int create_sibling(struct outfile *file, mode_t mode)
{
    const char *slash = strrchr(file->path, '/');
    uint64_t number;
    int fd = -1;

    for (int i = 0; i < NAME_TRIES && fd < 0; i++) {
        if (getrandom(&number, sizeof(number), 0) != sizeof(number) ||
            asprintf(&file->temporary, "%.*s.wsctl-%016llx", slash ? (int)(slash + 1 - file->path) : 0, file->path,
                     (unsigned long long)number) < 0) {
            file->temporary = NULL;
            return -ENOMEM;
        }
        fd = open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, mode);
        if (fd < 0) {
            int error = errno;

            free(file->temporary);
            file->temporary = NULL;
            if (error != EEXIST)
                return -error;
        }
    }
    if (fd < 0)
        return -EEXIST;
    file->fd = fd;
    remember(file);
    heed_signals();
    return 0;
}

static void remove_sibling(struct outfile *file)
{
    unlink(file->temporary);
    unlist_sibling(file);
    file->fd = close_fd(file->fd);
}

/* --- what is kept
 * ------------------------------------------------------------------------------------------------------ */

/* What says something of the content, which is another one now, and what the kernel takes from a file that is written.
 */
static bool is_of_content(const char *name)
{
    return strcmp(name, "security.capability") == 0 || strcmp(name, "security.ima") == 0 ||
           strcmp(name, "security.evm") == 0;
}

static int copy_attribute(const struct outfile *file, const char *name, char *value, char *there)
{
    ssize_t n = fgetxattr(file->target, name, value, XATTR_MAX);

    if (n < 0)
        return -errno;
    if (fgetxattr(file->fd, name, there, XATTR_MAX) == n && memcmp(value, there, (size_t)n) == 0)
        return 0;
    return fsetxattr(file->fd, name, value, (size_t)n, 0) < 0 ? -errno : 0;
}

/* ACLs are among them. */
static int copy_attributes(const struct outfile *file)
{
    _cleanup_(freep) char *names = malloc(3 * XATTR_MAX);
    char *value = names ? names + XATTR_MAX : NULL;
    ssize_t n = names ? flistxattr(file->target, names, XATTR_MAX) : -1;
    int r = 0;

    if (!names)
        return -ENOMEM;
    if (n < 0)
        return errno == ENOTSUP ? 0 : -errno;
    for (const char *name = names; r == 0 && name < names + n; name += strlen(name) + 1)
        if (!is_of_content(name))
            r = copy_attribute(file, name, value, value + XATTR_MAX);
    return r;
}

/* The sibling gets what the file has. 0, or a negative errno: it cannot. */
static int copy_rights(const struct outfile *file, const struct stat *old)
{
    struct stat st;

    if (fstat(file->fd, &st) < 0)
        return -errno;
    if ((st.st_uid != old->st_uid || st.st_gid != old->st_gid) && fchown(file->fd, old->st_uid, old->st_gid) < 0)
        return -errno;
    if (fremovexattr(file->fd, "system.posix_acl_access") < 0 && errno != ENODATA && errno != ENOTSUP)
        return -errno; /* the directory has put it there */
    if (fchmod(file->fd, old->st_mode & 07777) < 0)
        return -errno;
    return copy_attributes(file);
}

/* --- open
 * -------------------------------------------------------------------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool names(const char *path, const struct stat *file)
{
    struct stat st;

    return *path && stat(path, &st) == 0 && is_same(&st, file);
}

/* Whether the job may read the file: by its input or by an argument, alone or as the value of an option. */
static bool is_read(const struct outfile_reads *reads, const struct stat *file)
{
    struct stat st;

    if (!reads)
        return false;
    if (reads->input >= 0 && fstat(reads->input, &st) == 0 && is_same(&st, file))
        return true;
    if (reads->path && names(reads->path, file))
        return true;
    for (size_t i = 0; i < reads->n_args; i++) {
        const char *arg = reads->args[i], *equals = strchr(arg, '=');

        if (names(arg, file) || (equals && names(equals + 1, file)) ||
            (arg[0] == '-' && arg[1] && names(arg + 2, file)))
            return true;
    }
    return false;
}

/* A file without a name. */
static int open_apart(struct outfile *file)
{
    const char *directory = getenv("TMPDIR");
    _cleanup_(freep) char *name = NULL;

    if (asprintf(&name, "%s/wsctl-XXXXXX", directory && *directory ? directory : "/tmp") < 0) {
        name = NULL;
        return -ENOMEM;
    }
    file->fd = mkostemp(name, O_CLOEXEC);
    if (file->fd < 0)
        return -errno;
    unlink(name);
    return 0;
}

int outfile_open(struct outfile *file, const char *path, const struct outfile_reads *reads)
{
    struct stat link, st;
    int r;

    *file = (struct outfile){.path = path, .fd = -1, .target = -1};
    if (lstat(path, &link) < 0)
        return errno == ENOENT ? create_sibling(file, 0666) : -errno;
    file->target = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | (S_ISLNK(link.st_mode) ? O_CREAT : 0), 0666);
    if (file->target < 0 || fstat(file->target, &st) < 0) {
        r = -errno;
        file->target = close_fd(file->target);
        return r;
    }
    file->regular = S_ISREG(st.st_mode);
    if (file->regular && is_same(&link, &st) && st.st_nlink == 1 && create_sibling(file, 0600) == 0) {
        if (copy_rights(file, &st) == 0) {
            file->target = close_fd(file->target); /* a graph of jobs has thousands of files */
            return 0;
        }
        remove_sibling(file);
    }
    if (file->regular && is_read(reads, &st)) {
        r = open_apart(file);
        if (r < 0)
            file->target = close_fd(file->target);
        return r;
    }
    file->fd = file->target;
    return 0;
}

/* --- the end
 * ------------------------------------------------------------------------------------------------------------ */

/* What was kept apart, or cannot take the place of the file, goes into it. */
static int copy_to_target(const struct outfile *file)
{
    off_t at = 0, size = lseek(file->fd, 0, SEEK_END);

    while (at < size) {
        ssize_t n = sendfile(file->target, file->fd, &at, (size_t)MIN(size - at, (off_t)1 << 30));

        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -EIO;
    }
    return size < 0 || ftruncate(file->target, size) < 0 ? -errno : 0;
}

/* Behind what was written, if anything was or it is the end. */
static int cut(const struct outfile *file, bool complete)
{
    off_t at = file->regular ? lseek(file->fd, 0, SEEK_CUR) : 0;

    if (!file->regular || (at == 0 && !complete))
        return 0;
    return at < 0 || ftruncate(file->fd, at) < 0 ? -errno : 0;
}

/* Some file systems tell only at a close that the disk is full. */
static int flush_file(int fd)
{
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    return other < 0 || (close(other) < 0 && errno != EINTR) ? -errno : 0;
}

static int replace(struct outfile *file)
{
    int r = flush_file(file->fd);

    if (r < 0)
        return r;
    if (rename(file->temporary, file->path) == 0) {
        unlist_sibling(file);
        return 0;
    }
    r = -errno; /* it is mounted there, or another user's in a directory like /tmp */
    file->target = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    return file->target >= 0 ? copy_to_target(file) : r;
}

static void close_outfile(struct outfile *file)
{
    if (file->temporary)
        remove_sibling(file);
    if (file->fd != file->target)
        file->fd = close_fd(file->fd);
    file->target = close_fd(file->target);
    file->fd = -1;
}

int outfile_commit(struct outfile *file)
{
    int r = file->temporary ? replace(file) : file->fd == file->target ? cut(file, true) : copy_to_target(file);

    if (r == 0 && file->target >= 0)
        r = flush_file(file->target);
    close_outfile(file);
    return r;
}

void outfile_abandon(struct outfile *file)
{
    if (file->fd >= 0 && file->fd == file->target)
        cut(file, false);
    close_outfile(file);
}
