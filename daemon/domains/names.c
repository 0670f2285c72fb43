/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c: which plugins the plugin directories have.
 * Owns the list of names as it was read last. Owns the inotify descriptor that says when it is out of date. [loop]
 * Keeps: the directories are read only when they have changed, or once in a while. How often the list is asked for does
 * not matter.
 * Does not look into the files. */
#include "domains/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "domains/executors.h"
#include "domains/plugin-query.h"
#include "table/job.h"

/* for which the list is good where the kernel says what changes: it does not see other machines' doings */
#define WATCHED_USEC   1000000u
#define UNWATCHED_USEC 100000u /* and where it does not */
#define CHANGES                                                                                                        \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF | IN_ATTRIB | IN_ONLYDIR)

static int is_plugin_file(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 3 && entry->d_name[0] != '.' && strcmp(entry->d_name + n - 3, ".so") == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the names of one directory to the list. */
static int names_add(const char *directory, char ***names, size_t *n)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_plugin_file, NULL);

    if (count < 0)
        /* what is not there has no plugins */
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
    char **more = realloc(*names, (*n + (size_t)count + 1) * sizeof(char *));
    bool whole = more;
    for (int i = 0; i < count; i++) {
        char *name = entries[i]->d_name;

        if (more) {
            more[*n] = strndup(name, strlen(name) - 3);
            whole &= more[*n] != NULL;
            *n += more[*n] != NULL;
        }
        free(entries[i]);
    }
    free(entries);
    *names = more ? more : *names;
    return whole ? 0 : -ENOMEM;
}

static int names_read(const struct jobs *jobs, char **ret_names, size_t *ret_size)
{
    _cleanup_(freep) char *dirs = strdup(jobs->options.plugin_dirs);
    struct buffer all = {0};
    char **names = NULL, *save = NULL;
    size_t n = 0;
    int r = dirs ? 0 : -ENOMEM;

    for (char *dir = dirs ? strtok_r(dirs, ":", &save) : NULL; dir && r == 0; dir = strtok_r(NULL, ":", &save))
        r = names_add(dir, &names, &n);
    if (n)
        qsort(names, n, sizeof(char *), by_name);
    for (size_t i = 0; i < n; i++) {
        if (r == 0 && (i == 0 || strcmp(names[i], names[i - 1]) != 0) &&
            buffer_put(&all, names[i], strlen(names[i]) + 1) < 0)
            r = -ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (r < 0) {
        buffer_deinit(&all);
        return r;
    }
    *ret_names = (char *)all.data;
    *ret_size = buffer_size(&all);
    return 0;
}

/* Whether something has changed since the last call. Forgets what. */
static bool changed(const struct names *n)
{
    char events[4096];
    bool any = false;

    while (n->watching && read(n->fd, events, sizeof(events)) > 0)
        any = true;
    return any;
}

/* Watches all directories, before they are read. The descriptor stays, since a close waits for a grace period of RCU
 * (16 ms). A directory that is watched already gets no second watch. One that has been deleted has none. */
static void watch(struct names *n, const char *directories)
{
    _cleanup_(freep) char *dirs = strdup(directories);
    char *save = NULL;

    if (!n->watching)
        n->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    n->watching = n->fd >= 0;
    n->watched = n->watching && dirs;
    for (char *dir = n->watched ? strtok_r(dirs, ":", &save) : NULL; dir; dir = strtok_r(NULL, ":", &save))
        n->watched &= inotify_add_watch(n->fd, dir, CHANGES) >= 0;
    (void)changed(n); /* what is read next has it */
}

static bool is_good(const struct names *n)
{
    if (!n->read_usec || clock_monotonic_usec() - n->read_usec > (n->watched ? WATCHED_USEC : UNWATCHED_USEC))
        return false;
    return !changed(n);
}

int jobs_plugin_names(struct jobs *jobs, char **ret_names, size_t *ret_size)
{
    struct names *n = &jobs->executors->names;

    if (!is_good(n)) {
        free(n->names);
        n->names = NULL;
        n->size = 0;
        n->read_usec = 0;
        watch(n, jobs->options.plugin_dirs);
        int r = names_read(jobs, &n->names, &n->size);
        if (r < 0)
            return r;
        n->read_usec = clock_monotonic_usec();
    }
    char *copy = malloc(n->size + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, n->size ? n->names : "", n->size);
    *ret_names = copy;
    *ret_size = n->size;
    return 0;
}

void names_deinit(struct names *n)
{
    free(n->names);
    if (n->watching)
        close(n->fd);
    *n = (struct names){0};
}
