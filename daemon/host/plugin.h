/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h: a loaded plugin: a checked, private copy of its descriptor. The installed promise is wsd/plugin.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wsd/plugin.h>

#include "base/cleanup.h"

#define PLUGIN_NAME_MAX      64u   /* plugin, function, version; with NUL */
#define PLUGIN_PATH_MAX      3072u /* with NUL: fits a control packet beside the rest */
#define PLUGIN_FUNCTIONS_MAX 64u

struct host_plugin;

struct plugin_function {
    const struct host_plugin *plugin; /* the plugin that it belongs to */
    bool has_hooks;                   /* that plugin has worker_start or worker_stop */
    char name[PLUGIN_NAME_MAX];
    char help[WSD_TEXT_MAX];
    uint64_t flags; /* enum wsd_function_flags */
    int (*run)(struct wsd_job *job, struct wsd_worker *self);
};

/* [const after load, any thread] */
struct host_plugin {
    char name[PLUGIN_NAME_MAX];
    char version[PLUGIN_NAME_MAX];
    char help[WSD_TEXT_MAX];
    char path[PLUGIN_PATH_MAX]; /* of the file that it was loaded from, for people */
    const void *image;          /* the bytes of that file, owned by the loader. NULL: none */
    size_t image_size;
    uintptr_t load_address; /* what the file's addresses are relative to */
    uint32_t n_functions;
    struct plugin_function *functions;
    int (*init)(void);                     /* NULL: none */
    void (*fini)(void);                    /* NULL: none */
    void (*worker_start)(uint32_t worker); /* NULL: none */
    void (*worker_stop)(uint32_t worker);  /* NULL: none */
};

/* Checks each promise of a descriptor, and copies it. 0; -ENOEXEC (another ABI) or -ELIBBAD (a promise is broken) with
 * one line in ret_error; -ENOMEM. A descriptor with invalid pointers can still crash the process. */
int plugin_new(struct host_plugin **ret_plugin, const struct wsd_plugin *descriptor, char *ret_error,
               size_t error_size);
/* NULL is fine; returns NULL. Does not call fini. */
struct host_plugin *plugin_free(struct host_plugin *plugin);
DEFINE_CLEANUP(struct host_plugin, plugin_free)

/* The function of that name; name NULL or "": the one with the plugin's name, else the first. NULL: none. *ret_index
 * may be NULL. [any] */
const struct plugin_function *plugin_find(const struct host_plugin *plugin, const char *name, uint32_t *ret_index);

/* Whether plugins of this ABI can be loaded. */
bool plugin_abi_known(uint32_t abi);

/* Writes the message for a plugin of another ABI into ret_error; returns -ENOEXEC. */
int plugin_error_abi(uint32_t abi, char *ret_error, size_t error_size);
