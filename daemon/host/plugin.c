/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.c: a plugin's descriptor, checked and copied.
 * Owns struct host_plugin. [any thread; const after plugin_new()]
 * Keeps: what the rest of the host reads has passed every promise of wsd/plugin.h; the plugin's own memory is read
 * once.
 * Does not load anything, and calls nothing in the plugin. */
#include "host/plugin.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/versioned.h"

/* What a descriptor of ABI 1 has at least; what is missing behind it counts as zero. */
#define PLUGIN_SIZE_MIN   (offsetof(struct wsd_plugin, fini) + sizeof(void (*)(void)))
#define FUNCTION_SIZE_MIN (offsetof(struct wsd_function, run) + sizeof(int (*)(void)))
#define SIZE_MAX_SANE     4096u

__attribute__((format(printf, 3, 4))) static int refuse_plugin(char *ret_error, size_t error_size, const char *format,
                                                               ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(ret_error, error_size, format, args);
    va_end(args);
    return -ELIBBAD;
}

static bool name_ok(const char *name)
{
    size_t n = name ? strnlen(name, PLUGIN_NAME_MAX) : 0;

    if (n == 0 || n == PLUGIN_NAME_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* One line of text without control characters: it goes to terminals. */
static bool text_ok(const char *text, size_t room)
{
    size_t n = text ? strnlen(text, room) : room;

    if (n == room)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return true;
}

/* Copies what this wsd knows of a structure. What an older one lacks is zero. False: it sets more than is known. */
static bool copy_known(void *to, size_t known, const void *from, size_t size)
{
    memset(to, 0, known);
    memcpy(to, from, MIN(size, known));
    return versioned_is_known(from, size, known);
}

static int refuse_newer(char *ret_error, size_t error_size, const char *what)
{
    refuse_plugin(ret_error, error_size,
                  "built with newer headers: %s sets something that this wsd does not know: install a newer wsd", what);
    return -ENOEXEC;
}

static int copy_function(struct host_plugin *p, const struct wsd_plugin *d, uint32_t index, char *ret_error,
                         size_t error_size)
{
    struct plugin_function *to = &p->functions[index];
    /* The stride is the plugin's: its headers may be older or newer than ours. */
    const char *from = (const char *)d->functions + (size_t)index * d->function_size;
    char what[64];
    struct wsd_function f;

    if (!copy_known(&f, sizeof(f), from, d->function_size)) {
        snprintf(what, sizeof(what), "function %u of its descriptor", index + 1);
        return refuse_newer(ret_error, error_size, what);
    }
    if (!name_ok(f.name))
        return refuse_plugin(ret_error, error_size,
                             "bad descriptor: the name of function %u is not 1 to %u of A-Za-z0-9_-", index + 1,
                             PLUGIN_NAME_MAX - 1);
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(p->functions[i].name, f.name) == 0)
            return refuse_plugin(ret_error, error_size, "bad descriptor: two functions are called %s", f.name);
    if (!text_ok(f.help, WSD_TEXT_MAX))
        return refuse_plugin(ret_error, error_size,
                             "bad descriptor: the help of function %s is not one line of at most %u bytes", f.name,
                             WSD_TEXT_MAX - 1);
    if (!f.run)
        return refuse_plugin(ret_error, error_size, "bad descriptor: function %s has no run", f.name);
    to->plugin = p;
    to->has_hooks = p->worker_start || p->worker_stop;
    strcpy(to->name, f.name);
    strcpy(to->help, f.help);
    to->flags = f.flags;
    to->run = f.run;
    return 0;
}

static int check_descriptor(const struct wsd_plugin *d, char *ret_error, size_t error_size)
{
    if (d->function_size < FUNCTION_SIZE_MIN || d->function_size > SIZE_MAX_SANE ||
        d->function_size % _Alignof(struct wsd_function) != 0)
        return refuse_plugin(ret_error, error_size, "bad descriptor: function_size is %u", d->function_size);
    if (d->n_functions < 1 || d->n_functions > PLUGIN_FUNCTIONS_MAX || !d->functions)
        return refuse_plugin(ret_error, error_size, "bad descriptor: it has %u functions, not 1 to %u",
                             d->functions ? d->n_functions : 0, PLUGIN_FUNCTIONS_MAX);
    if (!name_ok(d->name))
        return refuse_plugin(ret_error, error_size, "bad descriptor: the plugin's name is not 1 to %u of A-Za-z0-9_-",
                             PLUGIN_NAME_MAX - 1);
    if (!text_ok(d->version, PLUGIN_NAME_MAX))
        return refuse_plugin(ret_error, error_size, "bad descriptor: the version is not one line of at most %u bytes",
                             PLUGIN_NAME_MAX - 1);
    if (!text_ok(d->help, WSD_TEXT_MAX))
        return refuse_plugin(ret_error, error_size,
                             "bad descriptor: the plugin's help is not one line of at most %u bytes", WSD_TEXT_MAX - 1);
    return 0;
}

int plugin_new(struct host_plugin **ret_plugin, const struct wsd_plugin *descriptor, char *ret_error, size_t error_size)
{
    _cleanup_(plugin_freep) struct host_plugin *p = NULL;
    uint32_t size = descriptor->size;
    struct wsd_plugin d;

    if (!plugin_abi_known(descriptor->abi))
        return plugin_error_abi(descriptor->abi, ret_error, error_size);
    if (size < PLUGIN_SIZE_MIN || size > SIZE_MAX_SANE)
        return refuse_plugin(ret_error, error_size, "bad descriptor: its size is %u", size);
    if (!copy_known(&d, sizeof(d), descriptor, size))
        return refuse_newer(ret_error, error_size, "its descriptor");
    int r = check_descriptor(&d, ret_error, error_size);
    if (r < 0)
        return r;

    p = calloc(1, sizeof(*p));
    if (p)
        p->functions = calloc(d.n_functions, sizeof(*p->functions));
    if (!p || !p->functions) {
        snprintf(ret_error, error_size, "out of memory");
        return -ENOMEM;
    }
    p->worker_start = d.worker_start;
    p->worker_stop = d.worker_stop;
    for (uint32_t i = 0; i < d.n_functions; i++) {
        r = copy_function(p, &d, i, ret_error, error_size);
        if (r < 0)
            return r;
    }
    p->n_functions = d.n_functions;
    strcpy(p->name, d.name);
    strcpy(p->version, d.version);
    strcpy(p->help, d.help);
    p->init = d.init;
    p->fini = d.fini;
    *ret_plugin = TAKE(p);
    return 0;
}

struct host_plugin *plugin_free(struct host_plugin *plugin)
{
    if (plugin)
        free(plugin->functions);
    free(plugin);
    return NULL;
}

const struct plugin_function *plugin_find(const struct host_plugin *plugin, const char *name, uint32_t *ret_index)
{
    bool by_default = !name || !*name;
    uint32_t i;

    for (i = 0; i < plugin->n_functions; i++)
        if (strcmp(plugin->functions[i].name, by_default ? plugin->name : name) == 0)
            break;
    if (i == plugin->n_functions) {
        if (!by_default)
            return NULL;
        i = 0;
    }
    if (ret_index)
        *ret_index = i;
    return &plugin->functions[i];
}

bool plugin_abi_known(uint32_t abi)
{
    return abi >= 1 && abi <= WSD_PLUGIN_ABI;
}

int plugin_error_abi(uint32_t abi, char *ret_error, size_t error_size)
{
    snprintf(ret_error, error_size,
             "built for plugin ABI %u, this wsd has 1 to %u: rebuild it with the headers of this wsd "
             "(pkg-config --cflags wsd-plugin)",
             abi, WSD_PLUGIN_ABI);
    return -ENOEXEC;
}
