/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.c: finds, checks and loads plugins.
 * Owns the list of loaded plugins and the sealed copy of each file. [one thread]
 * Keeps: the bytes that are checked are the bytes that are loaded. The file is copied into a memfd, the memfd is
 * sealed, and everything after that reads the copy. The memfds stay open for ever: the dynamic loader knows a library
 * by its name, so /proc/self/fd/N must never come to mean another one.
 * Does not unload. Does not defend this process against a plugin's own code, which runs with all rights of the process.
 */
#include "host/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/inherit.h"
#include "base/seal.h"
#include "base/trust.h"
#include "host/note.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u
#endif

#define COPY_PIECE (1024u * 1024u * 64u)

struct loaded {
    struct loaded *next; /* newest first */
    struct host_plugin *plugin;
    int memfd;
    const void *bytes; /* the memfd, mapped */
    size_t size;
};

struct loader {
    char *dirs[LOADER_DIRS_MAX];
    size_t n_dirs;
    unsigned flags;
    char *directory;
    struct loaded *loaded;
};

struct error {
    char *text;
    size_t size;
};

__attribute__((format(printf, 3, 4))) static int refuse_file(const struct error *e, int r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(e->text, e->size, format, args);
    va_end(args);
    return r;
}

int loader_new(struct loader **ret_loader, const struct loader_options *options)
{
    _cleanup_(loader_freep) struct loader *l = NULL;

    if (options->n_dirs > LOADER_DIRS_MAX)
        return -EINVAL;
    l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->flags = options->flags;
    for (; l->n_dirs < options->n_dirs; l->n_dirs++) {
        l->dirs[l->n_dirs] = strdup(options->dirs[l->n_dirs]);
        if (!l->dirs[l->n_dirs])
            return -ENOMEM;
    }
    if (options->directory) {
        l->directory = strdup(options->directory);
        if (!l->directory)
            return -ENOMEM;
    }
    *ret_loader = TAKE(l);
    return 0;
}

static struct loaded *loaded_free(struct loaded *d)
{
    if (!d)
        return NULL;
    plugin_free(d->plugin);
    if (d->bytes)
        munmap((void *)(uintptr_t)d->bytes, d->size);
    close_fd(d->memfd);
    free(d);
    return NULL;
}
DEFINE_CLEANUP(struct loaded, loaded_free)

struct loader *loader_free(struct loader *loader)
{
    if (!loader)
        return NULL;
    for (struct loaded *d = loader->loaded, *next; d; d = next) {
        next = d->next;
        d->memfd = -1; /* stays open: see the top */
        loaded_free(d);
    }
    for (size_t i = 0; i < loader->n_dirs; i++)
        free(loader->dirs[i]);
    free(loader->directory);
    free(loader);
    return NULL;
}

void loader_fini(struct loader *loader)
{
    for (struct loaded *d = loader->loaded; d; d = d->next)
        if (d->plugin->fini)
            d->plugin->fini();
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

/* O_NONBLOCK: a FIFO in the way must not hang us. */
static int open_plugin(int dir, const char *path)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    return fd < 0 ? -errno : fd;
}

/* Of the process: it says nothing about the file. */
static bool is_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN;
}

/* The file that dir/file leads to, opened anew where others cannot have put another one in its place. */
static int open_trusted(const char *dir, const char *file, const struct error *e)
{
    char path[PATH_MAX], where[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, file) >= sizeof(path))
        return refuse_file(e, -ENOENT, "not found: the path is too long");
    _cleanup_(close_fdp) int place = trust_open(path, where);
    if (place == -EPERM && *where)
        return refuse_file(e, -EACCES, "not permitted: others than root and the owner of wsd could write to %s", where);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
    int fd = place < 0 ? place : open_plugin(AT_FDCWD, path);
    return fd < 0 ? refuse_file(e, fd, "%s/%s: %s", dir, file, strerror(-fd)) : fd;
}

/* Opens file in one plugin directory. A descriptor, or -ENOENT with *e untouched, or another error with its text. */
static int open_in(const struct loader *l, const char *dir, const char *file, const struct error *e)
{
    _cleanup_(close_fdp) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (dir_fd < 0 && is_want(errno))
        return refuse_file(e, -errno, "cannot be opened: %s", strerror(errno));
    if (dir_fd < 0)
        return -ENOENT; /* a plugin directory that does not exist (yet) is empty */
    int fd = open_plugin(dir_fd, file);
    if (fd == -ENOENT)
        return fd;
    if (fd < 0)
        return refuse_file(e, fd == -EACCES ? -EACCES : fd, "%s/%s: %s", dir, file, strerror(-fd));
    if (l->flags & LOADER_ANY_PATH)
        return fd;
    close(fd);
    if (fstat(dir_fd, &st) < 0 || !trust_only_ours(&st))
        return refuse_file(e, -EACCES, "not permitted: others than root and the owner of wsd could write to %s", dir);
    return open_trusted(dir, file, e);
}

static bool exists_in_directory(const struct loader *l, const char *file)
{
    char path[PATH_MAX];
    struct stat st;

    if (!l->directory || (size_t)snprintf(path, sizeof(path), "%s/%s", l->directory, file) >= sizeof(path))
        return false;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int not_found(const struct loader *l, const char *file, const struct error *e)
{
    char dirs[LOADER_ERROR / 2] = "";

    for (size_t i = 0, at = 0; i < l->n_dirs && at < sizeof(dirs); i++)
        at += (size_t)snprintf(dirs + at, sizeof(dirs) - at, "%s%s", i ? ":" : "", l->dirs[i]);
    if (exists_in_directory(l, file))
        return refuse_file(e, -ENOENT, "not in the plugin directories; for the one in the working directory write ./%s",
                           file);
    if (l->n_dirs == 0)
        return refuse_file(e, -ENOENT, "not found: there is no plugin directory");
    return refuse_file(e, -ENOENT, "not found in %s (a plugin elsewhere is named by its path, with a slash)", dirs);
}

/* A name without a slash. */
static int open_name(const struct loader *l, const char *name, char *ret_path, const struct error *e)
{
    char file[NAME_MAX + 1];
    size_t n = strlen(name);
    bool has_suffix = n > 3 && strcmp(name + n - 3, ".so") == 0;

    if ((size_t)snprintf(file, sizeof(file), "%s%s", name, has_suffix ? "" : ".so") >= sizeof(file))
        return refuse_file(e, -ENOENT, "not found: the name is too long");
    for (size_t i = 0; i < l->n_dirs; i++) {
        int fd = open_in(l, l->dirs[i], file, e);
        if (fd == -ENOENT)
            continue;
        if (fd >= 0 && (size_t)snprintf(ret_path, PLUGIN_PATH_MAX, "%s/%s", l->dirs[i], file) >= PLUGIN_PATH_MAX) {
            close(fd);
            return refuse_file(e, -ENOENT, "not found: the path is too long");
        }
        return fd;
    }
    return not_found(l, file, e);
}

/* A path with a directory that is spelt exactly like a plugin directory means the plugin of that name there. */
static const char *name_in_dirs(const struct loader *l, const char *path)
{
    const char *slash = strrchr(path, '/');

    for (size_t i = 0; i < l->n_dirs; i++) {
        size_t n = strlen(l->dirs[i]);
        while (n > 1 && l->dirs[i][n - 1] == '/')
            n--;
        if ((size_t)(slash - path) == n && memcmp(path, l->dirs[i], n) == 0 && slash[1])
            return slash + 1;
    }
    return NULL;
}

/* A path with a slash. */
static int open_path(const struct loader *l, const char *path, char *ret_path, const struct error *e)
{
    const char *name = name_in_dirs(l, path);
    int n;

    if (!(l->flags & LOADER_ANY_PATH)) {
        if (name)
            return open_name(l, name, ret_path, e);
        return refuse_file(e, -EACCES, "not permitted: this wsd opens plugins from its plugin directories only");
    }
    if (path[0] == '/')
        n = snprintf(ret_path, PLUGIN_PATH_MAX, "%s", path);
    else if (l->directory)
        n = snprintf(ret_path, PLUGIN_PATH_MAX, "%s/%s", l->directory, path);
    else
        return refuse_file(e, -ENOENT, "not found: not an absolute path");
    if (n < 0 || (unsigned)n >= PLUGIN_PATH_MAX)
        return refuse_file(e, -ENOENT, "not found: the path is too long");
    int fd = open_plugin(AT_FDCWD, ret_path);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return refuse_file(e, -ENOENT, "no such file");
    if (fd == -EACCES || fd == -EPERM)
        return refuse_file(e, -EACCES, "%s", strerror(-fd));
    /* A FIFO without a reader is no error here, a socket is: whatever it is, it is no plugin. */
    if (fd == -ENXIO)
        return refuse_file(e, -ENOEXEC, "not a plugin: not a regular file");
    if (fd < 0)
        return refuse_file(e, fd, "cannot be opened: %s", strerror(-fd));
    return fd;
}

/* --- copying ------------------------------------------------------------------------------------------------------ */

static int memfd_new(const char *path)
{
    char name[200]; /* the kernel takes 249 bytes; it is only seen in /proc/PID/maps */

    snprintf(name, sizeof(name), "%.199s", strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
    /* MFD_EXEC says that we mean it; kernels before 6.3 do not know the word. */
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    if (fd < 0)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

static int copy_bytes(int from, int to)
{
    uint64_t size = 0;

    for (;;) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, COPY_PIECE, 0);
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
            char buffer[16384];
            n = read(from, buffer, sizeof(buffer));
            for (ssize_t done = 0, w; done < n; done += w) {
                w = write(to, buffer + done, (size_t)(n - done));
                if (w < 0)
                    return -errno;
            }
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return 0;
        size += (uint64_t)n;
        if (size > LOADER_FILE_MAX)
            return -E2BIG;
    }
}

/* The sealed, mapped copy of what fd is. */
static int copy_sealed(int fd, const char *path, struct loaded **ret, const struct error *e)
{
    _cleanup_(loaded_freep) struct loaded *d = calloc(1, sizeof(*d));
    char words[INHERIT_ERROR];
    struct stat st;

    if (!d)
        return refuse_file(e, -ENOMEM, "out of memory");
    d->memfd = memfd_new(path);
    if (d->memfd < 0)
        return refuse_file(e, d->memfd, "cannot be copied: %s%s", strerror(-d->memfd), inherit_blame(d->memfd, words));
    int r = copy_bytes(fd, d->memfd);
    if (r < 0)
        return refuse_file(e, r == -E2BIG ? -ENOEXEC : r, "cannot be copied: %s%s", strerror(-r),
                           inherit_blame(r, words));
    r = seal_memory(d->memfd);
    if (r == 0 && fstat(d->memfd, &st) < 0)
        r = -errno;
    if (r < 0)
        return refuse_file(e, r, "cannot be copied: %s", strerror(-r));
    d->size = (size_t)st.st_size;
    if (d->size > 0) {
        void *bytes = mmap(NULL, d->size, PROT_READ, MAP_SHARED, d->memfd, 0);
        if (bytes == MAP_FAILED)
            return refuse_file(e, -errno, "cannot be copied: %s", strerror(errno));
        d->bytes = bytes;
    }
    *ret = TAKE(d);
    return 0;
}

static int check_file(const struct loader *l, int fd, const struct error *e)
{
    struct statvfs vfs;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return refuse_file(e, -errno, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return refuse_file(e, -ENOEXEC, "not a plugin: %s",
                           S_ISDIR(st.st_mode) ? "it is a directory" : "not a regular file");
    /* before any of it is copied, which takes memory */
    if (st.st_size > (off_t)LOADER_FILE_MAX)
        return refuse_file(e, -ENOEXEC, "not a plugin: the file is larger than %u MiB", LOADER_FILE_MAX >> 20);
    if (!(l->flags & LOADER_ANY_PATH) && !trust_only_ours(&st))
        return refuse_file(e, -EACCES,
                           "not permitted: others than root and the owner of wsd could have written the file");
    /* the copy that is loaded lies where all may be executed, whatever the administrator says of the place of the
     * file */
    if (fstatvfs(fd, &vfs) < 0)
        return refuse_file(e, -errno, "%s", strerror(errno));
    if (vfs.f_flag & ST_NOEXEC)
        return refuse_file(e, -EACCES,
                           "not permitted: nothing may be executed where it lies (noexec; ExecPaths= of the service)");
    return 0;
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

static struct host_plugin *find_same(const struct loader *l, const struct loaded *d)
{
    for (const struct loaded *o = l->loaded; o; o = o->next)
        if (o->size == d->size && memcmp(o->bytes, d->bytes, d->size) == 0)
            return o->plugin;
    return NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* dlerror() begins with the file's name, which here means nothing to anybody. */
static int refuse_dlerror(const char *file, const struct error *e)
{
    static const int wants[] = {EMFILE, ENFILE, ENOMEM, EAGAIN};
    const char *text = dlerror();
    size_t n = strlen(file);

    if (!text)
        text = "no reason given";
    if (strncmp(text, file, n) == 0 && text[n] == ':')
        text += n + 1;
    int r = -ELIBBAD;
    for (size_t i = 0; i < ARRAY_SIZE(wants); i++)
        if (ends_with(text, strerror(wants[i])))
            r = -wants[i];
    if (strstr(text, "static TLS"))
        return refuse_file(e, -ELIBBAD, "cannot be loaded: %s; raise [executor] static-tls in wsd.conf",
                           text + strspn(text, " "));
    return refuse_file(e, r, "cannot be loaded: %s", text + strspn(text, " "));
}

static uintptr_t load_address(void *handle)
{
    struct link_map *map;

    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_addr : 0;
}

static int load_code(const struct loader *l, struct loaded *d, const char *path, const struct error *e)
{
    char name[PATH_MAX];
    int status;

    snprintf(name, sizeof(name), "/proc/self/fd/%d", d->memfd);
    if (l->flags & LOADER_REAL_PATH && !realpath(path, name))
        return refuse_file(e, -errno, "%s", strerror(errno));
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return refuse_dlerror(name, e);
    const struct wsd_plugin *descriptor = dlsym(handle, "wsd_plugin");
    if (!descriptor)
        return refuse_file(e, -ELIBBAD, "cannot be loaded: it does not export wsd_plugin");
    int r = plugin_new(&d->plugin, descriptor, e->text, e->size);
    if (r < 0)
        return r;
    snprintf(d->plugin->path, sizeof(d->plugin->path), "%s", path);
    d->plugin->image = d->bytes;
    d->plugin->image_size = d->size;
    d->plugin->load_address = load_address(handle);
    status = d->plugin->init ? d->plugin->init() : 0;
    if (status != 0)
        return refuse_file(e, -ELIBBAD, "its init failed with %d", status);
    return 0;
}

int loader_load(struct loader *loader, const char *name, struct host_plugin **ret_plugin, char *ret_error,
                size_t error_size)
{
    const struct error e = {ret_error, error_size};
    _cleanup_(loaded_freep) struct loaded *d = NULL;
    _cleanup_(close_fdp) int fd = -1;
    char path[PLUGIN_PATH_MAX];
    uint32_t abi;
    int r;

    if (!*name)
        return refuse_file(&e, -ENOENT, "not found: the name is empty");
    fd = strchr(name, '/') ? open_path(loader, name, path, &e) : open_name(loader, name, path, &e);
    if (fd < 0)
        return fd;
    r = check_file(loader, fd, &e);
    if (r == 0)
        r = copy_sealed(fd, path, &d, &e);
    if (r < 0)
        return r;
    struct host_plugin *same = find_same(loader, d);
    if (same) {
        *ret_plugin = same;
        return 0;
    }
    r = note_read(d->bytes, d->size, &abi);
    if (r != 0)
        return refuse_file(&e, -ENOEXEC, "%s", note_strerror(r));
    if (!plugin_abi_known(abi))
        return plugin_error_abi(abi, ret_error, error_size);
    r = load_code(loader, d, path, &e);
    if (r < 0) {
        d->memfd = -1; /* the name is used up even where the dynamic loader said no: see the top */
        return r;
    }
    d->next = loader->loaded;
    loader->loaded = d;
    *ret_plugin = TAKE(d)->plugin;
    return 0;
}
