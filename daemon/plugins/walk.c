/* SPDX-License-Identifier: Apache-2.0
 *
 * walk.c: names of files below a folder, with the submitter's rights.
 * Owns the names. A folder is read and closed before those in it are opened, and a path ends at
 * PATH_MAX, which bounds the depth. Does not open a file. */
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "plugins/common.h"

struct walk {
    struct wsd_job *job;
    struct names *names;
};

static int reserve(struct names *names)
{
    if (names->n < names->allocated)
        return 0;

    size_t n = MAX(64, 2 * names->allocated);
    char **grown = reallocarray(names->names, n, sizeof(*grown));

    if (!grown)
        return -ENOMEM;
    names->names = grown;
    names->allocated = n;
    return 0;
}

int names_add(struct names *names, const char *name)
{
    int r = reserve(names);

    if (r)
        return r;
    names->names[names->n] = strdup(name);
    if (!names->names[names->n])
        return -ENOMEM;
    names->n++;
    return 0;
}

void names_deinit(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct names){.names = NULL};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static unsigned char kind_of(int fd, const struct dirent *entry)
{
    struct stat st;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    return fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? DT_REG : (unsigned char)IFTODT(st.st_mode);
}

/* What is in it, each name behind one byte that says whether it is a folder. */
static int list_folder(int fd, struct names *ret_entries)
{
    DIR *folder = fdopendir(fd);
    const struct dirent *entry;
    int r = 0;

    if (!folder) {
        r = -errno;
        close_fd(fd);
        return r;
    }
    for (errno = 0; !r && (entry = readdir(folder)); errno = 0) {
        unsigned char kind = kind_of(fd, entry);
        _cleanup_(freep) char *name = NULL;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || (kind != DT_REG && kind != DT_DIR))
            continue;
        r = asprintf(&name, "%s%c", entry->d_name, kind == DT_DIR ? '/' : '\0') < 0 ? -ENOMEM
                                                                                    : names_add(ret_entries, name);
    }
    r = r ? r : -errno;
    closedir(folder);
    return r;
}

static int walk_folder(struct walk *walk, const char *path, int fd);

/* path ends with a slash, or is empty; so does an entry that is a folder. */
static int walk_entry(struct walk *walk, const char *path, const char *entry)
{
    _cleanup_(freep) char *name = NULL;

    if (asprintf(&name, "%s%s", path, entry) < 0) {
        name = NULL;
        return -ENOMEM;
    }
    if (name[strlen(name) - 1] != '/')
        return names_add(walk->names, name);
    return walk_folder(walk, name, wsd_job_open(walk->job, name));
}

/* As search says it of files: the name as it is, without the slash behind it. */
static void log_folder(struct walk *walk, const char *path, int error)
{
    int size = MAX((int)strlen(path) - 1, 1);

    wsd_job_log(walk->job, WSD_LOG_ERROR, "%s: %.*s: %s", walk->job->argv[0], size, *path ? path : ".",
                error_text(error));
    walk->names->failed = true;
}

/* Takes the descriptor, or the error that came in its place. */
static int walk_folder(struct walk *walk, const char *path, int fd)
{
    struct names entries = {.names = NULL};
    int r = fd < 0 ? fd : list_folder(fd, &entries);

    if (r && r != -ENOMEM) {
        log_folder(walk, path, r);
        r = 0;
    }
    if (entries.n)
        qsort(entries.names, entries.n, sizeof(*entries.names), compare);
    for (size_t i = 0; i < entries.n && !r; i++)
        r = wsd_job_cancelled(walk->job) ? -ECANCELED : walk_entry(walk, path, entries.names[i]);
    names_deinit(&entries);
    return r;
}

int names_walk(struct names *names, struct wsd_job *job, const char *name, bool *ret_folder)
{
    struct walk walk = {.job = job, .names = names};
    _cleanup_(freep) char *path = NULL;
    _cleanup_(close_fdp) int fd = wsd_job_open(job, name ? name : ".");
    struct stat st;

    *ret_folder = fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    if (!*ret_folder)
        return names_add(names, name ? name : "."); /* what is wrong with it is said when it is read */
    if (asprintf(&path, "%s%s", name ? name : "", !name || name[strlen(name) - 1] == '/' ? "" : "/") < 0) {
        path = NULL;
        return -ENOMEM;
    }
    return walk_folder(&walk, path, TAKE_FD(fd));
}
