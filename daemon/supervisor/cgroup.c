/* SPDX-License-Identifier: Apache-2.0
 *
 * cgroup.c: makes, limits and removes cgroups of executors, beneath the cgroup that wsd, or wsd-spawn, was started in.
 * Owns what it makes there, and the leaf that wsd moves to: processes may be in leaves only. [loop]
 * Keeps: nothing is changed in a cgroup that was not delegated. An executor's limits are in force before it enters.
 * Does not start processes. */
#include "supervisor/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "ring/layout.h"

#define LEAF      "daemon" /* where wsd itself is */
#define PREFIX    "executor-"
#define TEXT_MAX  4096
#define NAMES_MAX 1000 /* attempted for one cgroup */
/* Of an executor, beside what its plugins and jobs take: its own, and what it shares with wsd and touches first. */
#define ALLOWANCE (RING_ARENA_SIZE + (16ull << 20))

struct cgroups {
    unsigned refs;    /* its owner's, and one of each cgroup in it */
    int fd;           /* the delegated one */
    struct list late; /* to be removed, when they are empty */
};

struct cgroup {
    struct list link; /* cgroups->late, or none */
    struct cgroups *group;
    char name[32];
    int fd, procs_fd;
};

/* --- files -------------------------------------------------------------------------------------------------------- */

static int read_text(int at, const char *name, char text[static TEXT_MAX])
{
    _cleanup_(close_fdp) int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);

    if (n < 0)
        return -errno;
    text[n] = 0;
    return 0;
}

static int write_text(int at, const char *name, const char *text)
{
    _cleanup_(close_fdp) int fd = openat(at, name, O_WRONLY | O_CLOEXEC);

    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int write_number(int at, const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return write_text(at, name, text);
}

/* A word of a list with blanks between. */
static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = text; (at = strstr(at, word)); at += n)
        if ((at == text || at[-1] == ' ') && strchr(" \n", at[n]))
            return true;
    return false;
}

/* --- where -------------------------------------------------------------------------------------------------------- */

static const char *mount_point(void)
{
    static const char *const places[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    struct statfs s;

    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (statfs(places[i], &s) == 0 && (uint64_t)s.f_type == CGROUP2_SUPER_MAGIC)
            return places[i];
    return NULL;
}

/* wsd's own, as an absolute path. 0 or a negative errno. */
static int own_path(char **ret)
{
    const char *mount = mount_point();
    _cleanup_(freep) char *line = NULL;
    size_t room = 0;
    int r = -EOPNOTSUPP;

    if (!mount)
        return r;
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return -errno;
    /* a line for each hierarchy of version 1 there is besides, of any length */
    while (r == -EOPNOTSUPP && getline(&line, &room, f) >= 0) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        r = asprintf(ret, "%s%s", mount, strcmp(line + 3, "/") == 0 ? "" : line + 3) < 0 ? -ENOMEM : 0;
    }
    if (r == -EOPNOTSUPP && !feof(f))
        r = ferror(f) ? -EIO : -ENOMEM;
    fclose(f);
    return r;
}

/* Reads one of the marks. Returns 1: delegated; 0: no such mark, or none can be there; or a negative errno. */
static int is_marked(const char *path, const char *mark)
{
    char value[2];
    ssize_t n = getxattr(path, mark, value, sizeof(value));

    if (n >= 0 || errno == ERANGE)
        return n == 1 && value[0] == '1';
    return errno == ENODATA || errno == EOPNOTSUPP || errno == ENOENT ? 0 : -errno;
}

/* systemd marks what it has delegated. The second mark is for root only; the first one is newer. Returns as
 * is_marked().
 */
static int is_delegated(const char *path)
{
    int r = is_marked(path, "user.delegate");

    return r ? r : is_marked(path, "trusted.delegate");
}

/* --- one ---------------------------------------------------------------------------------------------------------- */

/* 0 where it is gone. */
static int remove_directory(int at, const char *name)
{
    char kill[64];

    if (unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    snprintf(kill, sizeof(kill), "%s/cgroup.kill", name);
    (void)write_text(at, kill, "1"); /* the cgroups still in there belong to no executor */
    return unlinkat(at, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

static void clear_late(struct cgroups *g)
{
    list_for_each_entry_safe (struct cgroup, c, after_c, &g->late, link) {
        if (remove_directory(g->fd, c->name) == 0) {
            list_remove(&c->link);
            free(c);
        }
    }
}

/* Sets one limit. A controller that was not delegated is no reason to run without the other limits. */
static int limit(int at, const char *name, uint64_t number)
{
    int r = write_number(at, name, number);

    return r == -ENOENT || r == -EACCES ? 0 : r;
}

static int set_limits(int fd, const struct cgroup_limits *l)
{
    int r = limit(fd, "cpu.weight", l->cpu_weight ? l->cpu_weight : CGROUP_WEIGHT_DEFAULT);

    if (r == 0 && l->tasks)
        r = limit(fd, "pids.max", l->tasks);
    if (r < 0 || !l->memory)
        return r;
    r = limit(fd, "memory.max", l->memory + ALLOWANCE);
    if (r == 0) /* instead of pushing the rest of the machine out of memory first */
        r = limit(fd, "memory.swap.max", 0);
    return r == 0 ? limit(fd, "memory.oom.group", 1) : r;
}

/* Returns one that is not made yet, or NULL: no memory. */
static struct cgroup *cgroup_allocate(struct cgroups *g)
{
    struct cgroup *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    list_init(&c->link);
    c->group = g;
    c->fd = c->procs_fd = -1;
    return c;
}

/* Makes its directory under the first free name. Returns 0 or a negative errno. */
static int make_directory(struct cgroup *c, uint32_t number)
{
    snprintf(c->name, sizeof(c->name), PREFIX "%u", number);
    for (unsigned n = 2; mkdirat(c->group->fd, c->name, 0755) < 0; n++) {
        if (errno == EAGAIN) /* that does not pass by itself: cgroup.max.descendants or cgroup.max.depth */
            return -ENOSPC;
        if (errno != EEXIST || n > NAMES_MAX)
            return -errno;
        snprintf(c->name, sizeof(c->name), PREFIX "%u-%u", number, n); /* what a wsd before has left ends there still */
    }
    return 0;
}

int cgroup_new(struct cgroups *g, uint32_t number, const struct cgroup_limits *limits, struct cgroup **ret_cgroup)
{
    struct cgroup *c = cgroup_allocate(g);

    if (!c)
        return -ENOMEM;
    clear_late(g);
    int r = make_directory(c, number);
    if (r < 0) {
        free(c);
        return r;
    }
    g->refs++;
    c->fd = openat(g->fd, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    c->procs_fd = c->fd < 0 ? -1 : openat(c->fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    r = c->procs_fd < 0 ? -errno : set_limits(c->fd, limits);
    if (r < 0) {
        cgroup_free(c);
        return r;
    }
    *ret_cgroup = c;
    return 0;
}

struct cgroup *cgroup_free(struct cgroup *c)
{
    if (!c)
        return NULL;
    c->fd = close_fd(c->fd);
    c->procs_fd = close_fd(c->procs_fd);
    list_push_back(&c->group->late, &c->link);
    clear_late(c->group);
    cgroups_unref(c->group);
    return NULL;
}

int cgroup_enter(struct cgroup *c, pid_t pid)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", (int)pid);
    return write(c->procs_fd, text, strlen(text)) < 0 ? -errno : 0;
}

int cgroup_procs(const struct cgroup *c)
{
    return c ? c->procs_fd : -1;
}

static uint64_t event_count(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, name, n) == 0 && at[n] == ' ')
            return strtoull(at + n, NULL, 10);
    return 0;
}

enum cgroup_end cgroup_end(const struct cgroup *c)
{
    char text[TEXT_MAX];

    if (!c || read_text(c->fd, "memory.events", text) < 0 || event_count(text, "oom_kill") == 0)
        return CGROUP_END_FINE;
    return event_count(text, "oom") ? CGROUP_END_LIMIT : CGROUP_END_MACHINE;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* Removes one of a wsd that was killed, later if it cannot be removed yet. Returns 0 or a negative errno: it stays. */
static int remove_old(struct cgroups *g, const char *name)
{
    int r = remove_directory(g->fd, name);

    if (r != -EBUSY)
        return r;
    struct cgroup *c = strlen(name) < sizeof(c->name) ? cgroup_allocate(g) : NULL; /* no wsd makes longer names */
    if (!c)
        return r;
    memcpy(c->name, name, strlen(name) + 1);
    list_push_back(&g->late, &c->link);
    return 0;
}

static void clear_old(struct cgroups *g)
{
    int copy = openat(g->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);

    errno = d ? 0 : errno;
    for (struct dirent *e; d && (e = readdir(d)); errno = 0) {
        int r = strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 ? remove_old(g, e->d_name) : 0;

        if (r < 0)
            log_warning("the cgroup %s that a wsd before has left cannot be removed: %s: it stays, and what runs in it",
                        e->d_name, strerror(-r));
    }
    if (errno)
        log_warning("the cgroups that a wsd before has left cannot be listed: %s: they stay, and what runs in them",
                    strerror(errno));
    if (d)
        closedir(d);
    else
        close_fd(copy);
}

static int set_up(struct cgroups *g, bool in_leaf)
{
    static const char *const controllers[] = {"cpu", "memory", "pids"};
    char there[TEXT_MAX], all[32] = "";
    int fd = g->fd, r = read_text(fd, "cgroup.controllers", there);

    for (size_t i = 0, n = 0; i < ARRAY_SIZE(controllers) && r == 0; i++)
        if (has_word(there, controllers[i]))
            n += (size_t)snprintf(all + n, sizeof(all) - n, "+%s ", controllers[i]);
    if (r == 0 && !*all)
        r = -EOPNOTSUPP;
    if (r == 0 && !in_leaf) {
        r = mkdirat(fd, LEAF, 0755) < 0 && errno != EEXIST ? -errno : 0;
        if (r == 0)
            r = write_text(fd, LEAF "/cgroup.procs", "0");
    }
    if (r < 0)
        return r;
    clear_old(g);
    return write_text(fd, "cgroup.subtree_control", all);
}

int cgroups_new(struct cgroups **ret_cgroups, bool always, char error[static CGROUP_ERROR])
{
    _cleanup_(freep) char *path = NULL;
    bool in_leaf = false;
    int r = own_path(&path);

    if (r == -EOPNOTSUPP)
        snprintf(error, CGROUP_ERROR, "this machine has no cgroups of version 2");
    else if (r < 0)
        snprintf(error, CGROUP_ERROR, "wsd's own cannot be read: %s", strerror(-r));
    if (r < 0)
        return r;
    r = is_delegated(path);
    if (r == 0) {
        char *name = strrchr(path, '/'); /* a service manager may have made the leaf */

        *name = 0;
        r = is_delegated(path);
        in_leaf = r > 0;
        if (!in_leaf)
            *name = '/';
    }
    if (r < 0 && !always) {
        snprintf(error, CGROUP_ERROR, "whether %.128s was delegated to wsd cannot be read: %s", path, strerror(-r));
        return r;
    }
    if (r == 0 && !always) {
        snprintf(error, CGROUP_ERROR, "%.128s was not delegated to wsd", path);
        return -EOPNOTSUPP;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = fd < 0 ? -errno : faccessat(fd, "cgroup.subtree_control", W_OK, 0) < 0 ? -errno : 0;
    struct cgroups *g = cgroups_taken(fd);
    if (r == 0)
        r = g ? set_up(g, in_leaf) : -ENOMEM;
    if (r < 0) {
        snprintf(error, CGROUP_ERROR, "%.128s: %s", path,
                 r == -EOPNOTSUPP ? "none of cpu, memory and pids was delegated" : strerror(-r));
        cgroups_unref(g);
        return r;
    }
    *ret_cgroups = g;
    return 0;
}

struct cgroups *cgroups_taken(int fd)
{
    struct cgroups *g = calloc(1, sizeof(*g));

    if (!g) {
        close_fd(fd);
        return NULL;
    }
    g->refs = 1;
    g->fd = fd;
    list_init(&g->late);
    return g;
}

int cgroups_fd(const struct cgroups *g)
{
    return g ? g->fd : -1;
}

struct cgroups *cgroups_unref(struct cgroups *g)
{
    if (!g || --g->refs > 0)
        return NULL;
    clear_late(g);
    while (!list_empty(&g->late))
        free(container_of(list_pop_front(&g->late), struct cgroup, link));
    close_fd(g->fd);
    free(g);
    return NULL;
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

/* A number of a cgroup's file; UINT64_MAX: "max", or it is not there. 0 or a negative errno. */
static int number_in(const char *group, const char *file, uint64_t *ret)
{
    unsigned long long n = UINT64_MAX;
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group, file) >= sizeof(path))
        return -ENAMETOOLONG;
    FILE *f = fopen(path, "re");
    if (!f && errno != ENOENT)
        return -errno;
    int r = f && fscanf(f, "%llu", &n) < 0 && ferror(f) ? -errno : 0;
    if (f)
        fclose(f);
    if (r == 0)
        *ret = n;
    return r;
}

/* Finds the process's own cgroup. Returns 0; -ENOENT: it has none of version 2; another negative errno: unreadable. */
static int own_group(char *group, size_t size)
{
    char line[PATH_MAX];
    int r = -ENOENT;
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (!f)
        return -errno;
    while (r < 0 && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(group, size, "%s", line + 3);
        r = 0;
    }
    if (r < 0 && ferror(f))
        r = -errno;
    fclose(f);
    return r;
}

/* Finds the nearest cgroup that is full. Returns 1, with its limit; 0: none; or a negative errno. */
static int full_group(char *group, uint64_t *ret_most)
{
    for (char *slash; *group; *slash = 0) {
        uint64_t now = 0;
        int r = number_in(group, "pids.max", ret_most);

        if (r == 0 && *ret_most != UINT64_MAX)
            r = number_in(group, "pids.current", &now);
        if (r < 0)
            return r;
        if (*ret_most != UINT64_MAX && now + 1 >= *ret_most)
            return 1;
        slash = strrchr(group, '/');
        if (!slash)
            break;
    }
    return 0;
}

const char *cgroup_tasks_words(char *text, size_t size)
{
    struct rlimit limit = {0};
    char group[PATH_MAX], unread[128] = "";
    uint64_t most;
    int r = own_group(group, sizeof(group));

    if (r == 0)
        r = full_group(group, &most);
    if (r > 0) {
        snprintf(text, size, "TasksMax= of the service is %llu (pids.max of %s)", (unsigned long long)most, group);
        return text;
    }
    if (r < 0 && r != -ENOENT)
        snprintf(unread, sizeof(unread), ", or TasksMax= is reached (it cannot be read: %s)", strerror(-r));
    (void)getrlimit(RLIMIT_NPROC, &limit);
    snprintf(text, size,
             "RLIMIT_NPROC is %llu for this user, or the machine has no more (kernel.threads-max, kernel.pid_max)%s",
             (unsigned long long)limit.rlim_cur, unread);
    return text;
}
