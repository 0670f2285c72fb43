/* SPDX-License-Identifier: Apache-2.0
 *
 * members.c: walks through what becomes members of an archive, with the submitter's rights.
 * Owns the names and descriptions of what is in the folders above the current one, and the names of the members that
 * have several links.
 * Keeps: a folder is read and closed before those in it are opened, and a path ends at PATH_MAX, which bounds the depth.
 * Nothing is opened but folders: FIFOs and devices are only looked at. Does not read files. */
#include "plugins/members.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/tar.h"

/* One name in a folder, as it was when the folder was read. */
struct name_entry {
    char *name, *link;
    struct stat st;
    unsigned char kind; /* DT_UNKNOWN: only st tells */
    enum problem problem;
    int error;
};

/* A folder that was read. Its path is that of the member. */
struct listing {
    char *path;
    size_t said;
    struct name_entry *entries;
    size_t n, allocated;
    size_t next; /* the first that was not given yet */
};

/* ---- looking ---- */

/* "": it is empty, or not known, which `error` says. */
static char *read_link(int fd, const char *name, int *ret_error)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(fd, name, target, sizeof(target) - 1);

    *ret_error = n < 0 ? -errno : 0;
    target[MAX(n, 0)] = '\0';
    return strdup(target);
}

/* Looks at one name in a folder. What cannot be found out is the entry's problem. 0 or -ENOMEM. */
static int look(struct name_entry *entry, int fd, const char *name)
{
    entry->problem = PROBLEM_NONE;
    if (fstatat(fd, name, &entry->st, AT_SYMLINK_NOFOLLOW) < 0) {
        entry->problem = PROBLEM_LOOK;
        entry->error = -errno;
        return 0;
    }
    if (S_ISSOCK(entry->st.st_mode))
        entry->problem = PROBLEM_SOCKET;
    if (!S_ISLNK(entry->st.st_mode))
        return 0;
    entry->link = read_link(fd, name, &entry->error);
    if (entry->error)
        entry->problem = PROBLEM_LINK;
    return entry->link ? 0 : -ENOMEM;
}

/* This process may have fewer rights than the submitter, who can open what cannot be looked at from here. A symbolic link
 * is followed. */
static void look_by_opening(struct wsd_job *job, struct name_entry *entry, const char *path)
{
    _cleanup_(close_fdp) int fd = wsd_job_open(job, path);

    if (fd < 0)
        entry->error = fd;
    else if (fstat(fd, &entry->st) == 0)
        entry->problem = PROBLEM_NONE;
}

/* Looks at a path with the rights that this process has of the submitter's. 0 or -ENOMEM. */
static int look_from_here(struct wsd_job *job, struct name_entry *entry, const char *path)
{
    const char *directory = wsd_job_directory(job);
    _cleanup_(close_fdp) int fd = directory && *directory ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0)
        return look(entry, fd, path);
    entry->problem = PROBLEM_LOOK;
    entry->error = -EACCES;
    return 0;
}

static bool lacks_rights(const struct name_entry *entry)
{
    return entry->problem == PROBLEM_LOOK && (entry->error == -EACCES || entry->error == -EPERM);
}

/* ---- folders ---- */

static void entry_deinit(struct name_entry *entry)
{
    free(entry->name);
    free(entry->link);
}

static void listing_deinit(struct listing *listing)
{
    for (size_t i = 0; i < listing->n; i++)
        entry_deinit(&listing->entries[i]);
    free(listing->entries);
    free(listing->path);
}

static struct name_entry *listing_room(struct listing *listing)
{
    if (listing->n == listing->allocated) {
        size_t n = MAX(16, 2 * listing->allocated);
        struct name_entry *grown = reallocarray(listing->entries, n, sizeof(*grown));

        if (!grown)
            return NULL;
        listing->entries = grown;
        listing->allocated = n;
    }
    return &listing->entries[listing->n];
}

static int add_entry(struct listing *listing, int fd, const struct dirent *seen)
{
    struct name_entry *entry = listing_room(listing);
    int r;

    if (!entry)
        return -ENOMEM;
    *entry = (struct name_entry){.name = strdup(seen->d_name), .kind = seen->d_type};
    listing->n++;
    r = entry->name ? look(entry, fd, entry->name) : -ENOMEM;
    if (entry->problem != PROBLEM_NONE && entry->error == -ENOENT)
        entry->problem = PROBLEM_OPEN; /* it has gone since its name was read */
    return r;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct name_entry *)a)->name, ((const struct name_entry *)b)->name);
}

/* Everything in the folder, in order. Takes the descriptor. 0 or a negative errno. */
static int read_folder(struct wsd_job *job, struct listing *listing, int fd)
{
    DIR *folder = fdopendir(fd);
    const struct dirent *seen;
    int r = 0;

    if (!folder) {
        r = -errno;
        close_fd(fd);
        return r;
    }
    for (errno = 0; !r && (seen = readdir(folder)); errno = 0)
        if (wsd_job_cancelled(job))
            r = -ECANCELED;
        else if (strcmp(seen->d_name, ".") != 0 && strcmp(seen->d_name, "..") != 0)
            r = add_entry(listing, dirfd(folder), seen);
    r = r ? r : -errno;
    closedir(folder);
    if (!r && listing->n) /* else the last one may have no name */
        qsort(listing->entries, listing->n, sizeof(*listing->entries), compare_entries);
    return r;
}

static struct listing *push_listing(struct members *m)
{
    if (m->n_listings == m->allocated) {
        size_t n = MAX(16, 2 * m->allocated);
        struct listing *grown = reallocarray(m->listings, n, sizeof(*grown));

        if (!grown)
            return NULL;
        m->listings = grown;
        m->allocated = n;
    }
    m->listings[m->n_listings] = (struct listing){.path = NULL};
    return &m->listings[m->n_listings];
}

/* Begins to walk through the member, which is a folder. What keeps it from that is its problem. */
static int enter(struct members *m, struct member *member)
{
    struct listing *listing = push_listing(m);
    int fd, r;

    if (!listing)
        return -ENOMEM;
    fd = member_open(m->job, member->path, &member->st);
    if (fd < 0) {
        member->problem = PROBLEM_OPEN;
        member->error = fd;
        return fd == -ECANCELED ? fd : 0;
    }
    listing->path = strdup(member->path);
    listing->said = member->said;
    if (!listing->path)
        close_fd(fd);
    r = listing->path ? read_folder(m->job, listing, fd) : -ENOMEM;
    if (!r) {
        m->n_listings++;
        return 0;
    }
    listing_deinit(listing);
    if (r == -ENOMEM || r == -ECANCELED)
        return r;
    member->problem = PROBLEM_READ;
    member->error = r;
    return 0;
}

/* ---- members ---- */

/* Whether a pattern matches the path, or what begins in it behind a slash, or a folder above. */
static bool is_excluded(const struct members *m, const char *path)
{
    for (size_t i = 0; i < m->n_excluded; i++)
        for (const char *p = path, *slash; p; p = slash ? slash + 1 : NULL) {
            slash = strchr(p, '/');
            if (fnmatch(m->excluded[i], p, FNM_LEADING_DIR) == 0)
                return true;
        }
    return false;
}

static int compare_files(const void *a, const void *b)
{
    const struct stat *x = &((const struct member *)a)->st, *y = &((const struct member *)b)->st;

    if (x->st_dev != y->st_dev)
        return x->st_dev < y->st_dev ? -1 : 1;
    return (x->st_ino > y->st_ino) - (x->st_ino < y->st_ino);
}

static bool has_links(const struct member *member)
{
    return member->st.st_nlink > 1 && !S_ISDIR(member->st.st_mode);
}

/* An earlier member that is the same file takes the place of what the file has. */
static int link_to_earlier(struct members *m, struct member *member)
{
    struct member **found = has_links(member) ? tfind(member, &m->linked, compare_files) : NULL;
    char *link;

    if (!found)
        return 0;
    link = strdup(member_name(*found));
    if (!link)
        return -ENOMEM;
    free(member->link);
    member->link = link;
    member->hard = true;
    return 0;
}

/* Gives the entry as a member. path: without a slash behind it; both are taken. */
static int give(struct members *m, struct member *member, char *path, size_t said, struct name_entry *entry)
{
    size_t size = strlen(path);
    int r = 0;

    *member = (struct member){.path = path,
                              .said = said,
                              .link = TAKE(entry->link),
                              .st = entry->st,
                              .problem = entry->problem,
                              .error = entry->error};
    if (member->problem == PROBLEM_NONE && S_ISDIR(member->st.st_mode)) {
        if (!size || path[size - 1] != '/')
            strcpy(path + size, "/"); /* join() left room for it */
        r = enter(m, member);
    }
    member->name = said + tar_name_begin(path + said);
    if (!r && member->problem == PROBLEM_NONE)
        r = link_to_earlier(m, member);
    if (r)
        member_deinit(member);
    return r;
}

/* Folder and name, with room for a slash. */
static char *join(const char *folder, const char *name)
{
    size_t n = strlen(folder);
    char *path = malloc(n + strlen(name) + 3);

    if (path)
        stpcpy(stpcpy(stpcpy(path, folder), n && folder[n - 1] != '/' ? "/" : ""), name);
    return path;
}

/* Of what is in the innermost folder. */
static int next_entry(struct members *m, struct member *member)
{
    struct listing *listing = &m->listings[m->n_listings - 1];
    struct name_entry *entry = &listing->entries[listing->next++];
    char *path = join(listing->path, entry->name);

    if (!path)
        return -ENOMEM;
    if (is_excluded(m, path + listing->said)) {
        free(path);
        return 0;
    }
    /* what is a link or a device is not opened in vain, and no link is followed */
    if (lacks_rights(entry) && (entry->kind == DT_REG || entry->kind == DT_DIR))
        look_by_opening(m->job, entry, path);
    return give(m, member, path, listing->said, entry);
}

/* Slashes behind a name mean nothing, as in tar: a symbolic link is not followed. */
static void strip_slashes(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
}

/* Looks at a path that was named. The submitter opens it only as it was named. 0 or -ENOMEM. */
static int look_at_path(struct members *m, struct name_entry *entry, char *path, size_t said)
{
    _cleanup_(freep) char *named = strdup(path);
    int r;

    if (!named)
        return -ENOMEM;
    strip_slashes(path + said);
    r = look_from_here(m->job, entry, path[said] ? path : "");
    if (!r && lacks_rights(entry))
        look_by_opening(m->job, entry, named);
    return r;
}

static int next_path(struct members *m, struct member *member)
{
    const char *named = m->paths[m->next++];
    char *path = join(m->base && *named != '/' ? m->base : "", named);
    struct name_entry entry = {.kind = DT_UNKNOWN};
    size_t said;
    int r;

    if (!path)
        return -ENOMEM;
    said = strlen(path) - strlen(named);
    r = look_at_path(m, &entry, path, said);
    if (!r && !is_excluded(m, path + said))
        r = give(m, member, TAKE(path), said, &entry);
    entry_deinit(&entry);
    free(path);
    return r;
}

int members_next(struct members *m, struct member *ret_member)
{
    struct member member = {.path = NULL};
    int r = 0;

    while (!r && !member.path) {
        struct listing *innermost = m->n_listings ? &m->listings[m->n_listings - 1] : NULL;

        if (wsd_job_cancelled(m->job)) {
            r = -ECANCELED;
        } else if (innermost && innermost->next == innermost->n) {
            listing_deinit(innermost);
            m->n_listings--;
        } else if (innermost) {
            r = next_entry(m, &member);
        } else if (m->next < m->n_paths) {
            r = next_path(m, &member);
        } else {
            break;
        }
    }
    if (!r)
        *ret_member = member;
    return r;
}

int members_add(struct members *m, const struct member *member)
{
    struct member *copy;

    if (!has_links(member) || member->hard)
        return 0;
    copy = calloc(1, sizeof(*copy));
    if (copy) {
        *copy = (struct member){.path = strdup(member_name(member)), .st = member->st};
        if (copy->path && tsearch(copy, &m->linked, compare_files))
            return 0;
        member_deinit(copy);
    }
    free(copy);
    return -ENOMEM;
}

static void linked_free(void *object)
{
    member_deinit(object);
    free(object);
}

void members_deinit(struct members *m)
{
    while (m->n_listings)
        listing_deinit(&m->listings[--m->n_listings]);
    free(m->listings);
    tdestroy(m->linked, linked_free);
    m->listings = NULL;
    m->linked = NULL;
}

const char *member_name(const struct member *member)
{
    const char *name = member->path + member->name;

    return *name ? name : "./"; /* only a folder leads out of itself */
}

int member_open(struct wsd_job *job, const char *path, const struct stat *st)
{
    int fd = wsd_job_open(job, path);
    struct stat opened;

    if (fd < 0)
        return fd;
    if (fstat(fd, &opened) == 0 && opened.st_dev == st->st_dev && opened.st_ino == st->st_ino &&
        (opened.st_mode & S_IFMT) == (st->st_mode & S_IFMT)) /* the kernel gives numbers again */
        return fd;
    close_fd(fd);
    return -ESTALE;
}

void member_deinit(struct member *member)
{
    free(member->path);
    free(member->link);
    *member = (struct member){.path = NULL};
}
