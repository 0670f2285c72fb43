/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.h: finds, checks and loads plugins. Used by wsd-executor and by `wsctl submit --local`; never by wsd.
 *
 * A loader is used by one thread. The plugins that it gives live until loader_free() and are never unloaded: their code
 * stays mapped for the life of the process. Loading the same bytes twice, by whatever names, gives the same plugin, so
 * that init runs once a process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "host/plugin.h"

#define LOADER_DIRS_MAX 64u
#define LOADER_FILE_MAX (1024u * 1024u * 1024u) /* bytes of a plugin's file */
#define LOADER_ERROR    512u                    /* enough room for every error text, with NUL */
enum loader_flags {
    LOADER_ANY_PATH = 1u << 0, /* a name with a slash is opened as a path. Without it: plugin directories only, and what
                                  is opened must be a file that no third user could have written */
    LOADER_REAL_PATH = 1u << 1, /* the dynamic loader is given the file itself instead of the sealed copy, so that
                                   debuggers find it */
};

struct loader_options {
    const char *const *dirs; /* copied */
    size_t n_dirs;
    unsigned flags;        /* enum loader_flags */
    const char *directory; /* where relative paths begin, and where a name that was not found may have been meant
                              ("write ./name.so"); NULL: no relative paths, no hint. Copied */
};

struct loader;

/* 0, -EINVAL (too many directories), -ENOMEM. */
int loader_new(struct loader **ret_loader, const struct loader_options *options);

/* Loads `name`: a name or name.so in the plugin directories, or a path with a slash. On failure ret_error (of
 * error_size bytes) has the reason in one line, without the name in front. Errors:
 *     -ENOENT   not there
 *     -EACCES   cannot be read, or is not permitted
 *     -ENOEXEC  is not a plugin, or one of another ABI
 *     -ELIBBAD  the dynamic loader, the descriptor or init refused it
 *     -ENOMEM, -EMFILE, ..
 *
 * Runs the plugin's constructors and init: those may hang or crash the process. */
int loader_load(struct loader *loader, const char *name, struct host_plugin **ret_plugin, char *ret_error,
                size_t error_size);

/* Calls every plugin's fini, last loaded first. Call once, at an orderly end, when no job is left. */
void loader_fini(struct loader *loader);

/* Frees the tables; the code stays. Does not call fini. NULL is fine; returns NULL. */
struct loader *loader_free(struct loader *loader);
DEFINE_CLEANUP(struct loader, loader_free)
