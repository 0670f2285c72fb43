/* SPDX-License-Identifier: Apache-2.0
 *
 * members.c: walks through what becomes members of an archive, with the submitter's rights.
 * Owns the names of what is in the current folder and those above it, descriptions of a few of them, and the names of the
 * members that have several links.
 * Keeps: a folder is closed before those in it are opened, and a path ends at PATH_MAX, which bounds the depth. A folder of
 * many names is opened once for every LOOKED_AT of them.
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
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "plugins/common.h"
#include "plugins/tar.h"

#define LOOKED_AT 256u     /* names of a folder that are described at once */
#define WAIT_NSEC 10000000 /* between two attempts to open what there was no descriptor for */

/* One name in a folder, as it was when it was looked at. */
struct name_entry {
    const char *name; /* the listing's */
    char *link;
    struct stat st;
    unsigned char kind; /* DT_UNKNOWN: only st tells */
    enum problem problem;
    int error;
};

/* A folder that was read. Its path is that of the member. */
struct listing {
    char *path;
    size_t said;
    struct stat st;
    struct buffer names; /* each is a byte, its kind, and the name with its NUL */
    const char **order;  /* of the names, where they lie */
    size_t n;
    struct name_entry *entries; /* those that were looked at last, which end before order[looked_at] */
    size_t n_entries, looked_at;
    size_t next; /* of the entries, the first that was not given yet */
};

/* A member that has several names. */
struct linked {
    dev_t device;
    ino_t inode;
    char name[];
};

/* ---- descriptors ---- */

/* Whether to try again what has failed so: jobs beside this one close files all the time. */
static bool wait_for_descriptor(struct members *m, int error)
{
    static const struct timespec pause = {.tv_nsec = WAIT_NSEC};

    if ((error != -EMFILE && error != -ENFILE) || wsd_job_cancelled(m->job) ||
        atomic_fetch_add_explicit(&m->impatience, 1, memory_order_relaxed) >= MEMBERS_PATIENCE)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

static int open_path(struct members *m, const char *path)
{
    int fd;

    do
        fd = wsd_job_open(m->job, path);
    while (wait_for_descriptor(m, fd));
    if (fd >= 0 && atomic_load_explicit(&m->impatience, memory_order_relaxed))
        atomic_store_explicit(&m->impatience, 0, memory_order_relaxed);
    return fd;
}

/* Where paths begin; -1: not with the rights that this process has, or a negative errno. */
static int open_start(struct members *m)
{
    const char *directory = wsd_job_directory(m->job);
    int fd = -1;

    if (directory && *directory)
        do {
            fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
            fd = fd < 0 ? -errno : fd;
        } while (wait_for_descriptor(m, fd));
    return fd;
}

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

/* This process may have fewer rights than the submitter, which can open what cannot be looked at from here. A symbolic
 * link is followed. */
static void look_by_opening(struct members *m, struct name_entry *entry, const char *path)
{
    _cleanup_(close_fdp) int fd = open_path(m, path);

    if (fd < 0)
        entry->error = fd;
    else if (fstat(fd, &entry->st) == 0)
        entry->problem = PROBLEM_NONE;
}

/* Looks at a path with the rights that this process has of the submitter's. 0 or -ENOMEM. */
static int look_from_here(struct members *m, struct name_entry *entry, const char *path)
{
    _cleanup_(close_fdp) int fd = open_start(m);

    if (fd >= 0)
        return look(entry, fd, path);
    entry->problem = PROBLEM_LOOK;
    entry->error = fd == -EMFILE || fd == -ENFILE ? fd : -EACCES;
    return 0;
}

static bool lacks_rights(const struct name_entry *entry)
{
    return entry->problem == PROBLEM_LOOK && (entry->error == -EACCES || entry->error == -EPERM);
}

/* ---- folders ---- */

static void entries_clear(struct listing *listing)
{
    for (size_t i = 0; i < listing->n_entries; i++)
        free(listing->entries[i].link);
    listing->n_entries = listing->next = 0;
}

static void listing_deinit(struct listing *listing)
{
    entries_clear(listing);
    free(listing->entries);
    free(listing->order);
    buffer_deinit(&listing->names);
    free(listing->path);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a + 1, *(const char *const *)b + 1);
}

static int order_names(struct listing *listing)
{
    const char *at = listing->names.data;

    listing->order = calloc(MAX(listing->n, 1), sizeof(*listing->order));
    if (!listing->order)
        return -ENOMEM;
    for (size_t i = 0; i < listing->n; i++, at += strlen(at + 1) + 2)
        listing->order[i] = at;
    qsort(listing->order, listing->n, sizeof(*listing->order), compare_names);
    return 0;
}

static int add_name(struct listing *listing, const struct dirent *seen)
{
    size_t n = strlen(seen->d_name) + 1;
    char *to = buffer_room(&listing->names, n + 1);

    if (!to)
        return -ENOMEM;
    *to = (char)seen->d_type;
    memcpy(to + 1, seen->d_name, n);
    listing->names.size += n + 1;
    listing->n++;
    return 0;
}

/* fd: the folder, or the error that came in its place. 0, -ENOMEM or -ECANCELED. */
static int look_at_entry(struct name_entry *entry, int fd, const char *name)
{
    int r = 0;

    *entry = (struct name_entry){.name = name + 1, .kind = (unsigned char)*name, .error = fd};
    if (fd < 0)
        entry->problem = PROBLEM_OPEN;
    else
        r = look(entry, fd, entry->name);
    if (entry->problem != PROBLEM_NONE && entry->error == -ENOENT)
        entry->problem = PROBLEM_OPEN; /* it has gone since its name was read */
    return r;
}

/* Looks at the next names, in place of those that were given. 0, -ENOMEM or -ECANCELED. */
static int look_at_some(struct members *m, struct listing *listing, int fd)
{
    size_t n = MIN(listing->n - listing->looked_at, LOOKED_AT);
    int r = 0;

    entries_clear(listing);
    if (!listing->entries)
        listing->entries = calloc(MAX(n, 1), sizeof(*listing->entries));
    if (!listing->entries)
        return -ENOMEM;
    for (size_t i = 0; i < n && !r; i++) {
        r = wsd_job_cancelled(m->job) ? -ECANCELED
                                      : look_at_entry(&listing->entries[i], fd, listing->order[listing->looked_at++]);
        listing->n_entries += r != -ECANCELED;
    }
    return r;
}

/* The names in the folder, in order, and what the first of them are. Takes the descriptor. 0 or a negative errno. */
static int read_folder(struct members *m, struct listing *listing, int fd)
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
        if (wsd_job_cancelled(m->job))
            r = -ECANCELED;
        else if (strcmp(seen->d_name, ".") != 0 && strcmp(seen->d_name, "..") != 0)
            r = add_name(listing, seen);
    r = r ? r : -errno;
    if (!r)
        r = order_names(listing);
    if (!r)
        r = look_at_some(m, listing, dirfd(folder));
    closedir(folder);
    return r;
}

/* What keeps the folder from being opened again is a problem of each of the names. */
static int look_further(struct members *m, struct listing *listing)
{
    _cleanup_(close_fdp) int fd = member_open(m, listing->path, &listing->st);

    return fd == -ECANCELED ? fd : look_at_some(m, listing, fd);
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
    fd = member_open(m, member->path, &member->st);
    if (fd < 0) {
        member->problem = PROBLEM_OPEN;
        member->error = fd;
        return fd == -ECANCELED ? fd : 0;
    }
    listing->path = strdup(member->path);
    listing->said = member->said;
    listing->st = member->st;
    if (!listing->path)
        close_fd(fd);
    r = listing->path ? read_folder(m, listing, fd) : -ENOMEM;
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
    const struct linked *x = a, *y = b;

    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->inode > y->inode) - (x->inode < y->inode);
}

static bool has_links(const struct member *member)
{
    return member->st.st_nlink > 1 && !S_ISDIR(member->st.st_mode);
}

/* An earlier member that is the same file takes the place of what the file has. */
static int link_to_earlier(struct members *m, struct member *member)
{
    const struct linked file = {.device = member->st.st_dev, .inode = member->st.st_ino};
    struct linked **found = has_links(member) ? tfind(&file, &m->linked, compare_files) : NULL;
    char *link;

    if (!found)
        return 0;
    link = strdup((*found)->name);
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
    int r = listing->next == listing->n_entries ? look_further(m, listing) : 0;
    struct name_entry *entry = &listing->entries[listing->next];
    char *path = r ? NULL : join(listing->path, entry->name);

    if (!path)
        return r ? r : -ENOMEM;
    listing->next++;
    if (is_excluded(m, path + listing->said)) {
        free(path);
        return 0;
    }
    /* what is a link or a device is not opened in vain, and no link is followed */
    if (lacks_rights(entry) && (entry->kind == DT_REG || entry->kind == DT_DIR))
        look_by_opening(m, entry, path);
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
    r = look_from_here(m, entry, path[said] ? path : "");
    if (!r && lacks_rights(entry))
        look_by_opening(m, entry, named);
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
    free(entry.link);
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
        } else if (innermost && innermost->next == innermost->n_entries && innermost->looked_at == innermost->n) {
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
    const char *name = member_name(member);
    struct linked *linked;

    if (!has_links(member) || member->hard)
        return 0;
    linked = malloc(sizeof(*linked) + strlen(name) + 1);
    if (!linked)
        return -ENOMEM;
    *linked = (struct linked){.device = member->st.st_dev, .inode = member->st.st_ino};
    strcpy(linked->name, name);
    if (tsearch(linked, &m->linked, compare_files))
        return 0;
    free(linked);
    return -ENOMEM;
}

void members_deinit(struct members *m)
{
    while (m->n_listings)
        listing_deinit(&m->listings[--m->n_listings]);
    free(m->listings);
    tdestroy(m->linked, free);
    m->listings = NULL;
    m->linked = NULL;
}

const char *member_name(const struct member *member)
{
    const char *name = member->path + member->name;

    return *name ? name : "./"; /* only a folder leads out of itself */
}

int member_open(struct members *m, const char *path, const struct stat *st)
{
    int fd = open_path(m, path);
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
