/* SPDX-License-Identifier: Apache-2.0
 *
 * open.c: opens files for wsd: those that the user named in the arguments of a job, with the user's own rights.
 * Owns the descriptor until it is in the queue of the connection.
 * Keeps: only what an argument of that very call names is opened. A wsd that another user runs must not be able to read
 * through this process what that user may not.
 * Does not read, and does not open what could block or have effects (fifos, devices, sockets). */
#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"

#define OPENED_ANSWERS_MAX 4096u /* unsent answers to OPEN: a wsd that asks on without reading is broken */

/* Does this argument name the path: is it the path, a directory above it, or an option with it (`--file=PATH`,
 * `-fPATH`,
 * `@PATH`)? */
static bool argument_names(const char *arg, const char *path)
{
    size_t n_arg = strlen(arg), n_path = strlen(path);

    if (n_arg >= n_path) {
        size_t at = n_arg - n_path;

        return strcmp(arg + at, path) == 0 && (at == 0 || strchr("=:,@", arg[at - 1]) || (at == 2 && arg[0] == '-'));
    }
    if (n_arg == 0 || strncmp(path, arg, n_arg) != 0 || (arg[n_arg - 1] != '/' && path[n_arg] != '/'))
        return false;
    /* below the argument, and not out of it again */
    for (const char *p = path + n_arg; (p = strstr(p, "..")); p += 2)
        if (p[-1] == '/' && (p[2] == '/' || p[2] == 0))
            return false;
    return true;
}

static bool is_named(const struct connection *c, struct span args, const char *path)
{
    size_t n = strlen(c->directory);
    const char *relative = NULL;

    /* wsd may have put our directory before a relative path */
    if (n > 0 && strncmp(path, c->directory, n) == 0 && path[n] == '/')
        relative = path + n + 1;
    for (const char *arg = args.data; arg && arg < args.data + args.size; arg += strlen(arg) + 1)
        if (argument_names(arg, path) || (relative && *relative && argument_names(arg, relative)))
            return true;
    return false;
}

int open_regular(int directory_fd, const char *path)
{
    int fd = openat(directory_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), flags;
    struct stat st;
    int error;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || (flags = fcntl(fd, F_GETFL)) < 0)
        goto fail;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        errno = ENXIO;
        goto fail;
    }
    if (fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        goto fail;
    return fd;
fail:
    error = errno;
    close(fd);
    return -error;
}

void open_answer(struct connection *c, struct span args, uint32_t tag, const struct msg_open *open)
{
    struct msg msg = {.type = FRAME_OPENED, .opened = {.serial = open->serial, .item = open->item}};
    int fd;

    if (++c->n_answers > OPENED_ANSWERS_MAX) {
        connection_break_protocol(c, "too many unread answers to", FRAME_OPEN);
        return;
    }
    if (c->remote.tls)
        fd = -EREMOTE; /* a descriptor does not go there, and a wsd elsewhere has no business with our files */
    else if (!is_named(c, args, open->path.data))
        fd = -EPERM;
    else if (c->n_opened == OPENED_MAX)
        fd = -ENFILE;
    else
        fd = open_regular(c->directory_fd, open->path.data);
    if (fd < 0)
        msg.opened.error = (uint32_t)-fd;

    int r = fd >= 0 ? connection_send_fd(c, &msg, tag, fd) : connection_send(c, &msg, tag, NULL, 0);

    if (r < 0 && !c->broken)
        connection_break(c, -ECONNRESET, exit_of_error(r), "%s", strerror(-r));
}
