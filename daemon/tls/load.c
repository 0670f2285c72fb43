/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c: finds the module that has OpenSSL.
 * Owns nothing: the module stays. [any thread, one at a time]
 * Keeps: a module that was built for another layout of the calls is not used. */
#include "tls/load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

/* Beside wsd, libwsclient or wsctl, where those run from where they were built. */
static bool in_build_tree(char path[static PATH_MAX])
{
    static const char *const places[] = {"tls/" TLS_MODULE, "../daemon/tls/" TLS_MODULE,
                                         "../../daemon/tls/" TLS_MODULE};
    char *real, *slash;
    Dl_info info;

    /* of a program it knows only what that was called by */
    if (!dladdr(&places, &info) || !info.dli_fname ||
        !(real = realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", NULL)))
        return false;
    slash = strrchr(real, '/');
    for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++)
        if (snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - real), real, places[i]) < PATH_MAX &&
            access(path, F_OK) == 0) {
            free(real);
            return true;
        }
    free(real);
    return false;
}

const struct tls_ops *tls_load(char error[TLS_ERROR])
{
    const struct tls_ops *ops;
    char path[PATH_MAX];

    if (!in_build_tree(path))
        snprintf(path, sizeof(path), "%s/%s", WSD_MODULE_DIR, TLS_MODULE);
    if (access(path, F_OK) < 0) {
        snprintf(error, TLS_ERROR, "this wsd was built, or installed, without TLS: there is no %.300s", path);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ops = handle ? dlsym(handle, "wsd_tls") : NULL;
    if (!ops || ops->version != TLS_VERSION) {
        snprintf(error, TLS_ERROR, "no TLS: %s", ops ? TLS_MODULE " is of another version" : dlerror());
        return NULL;
    }
    return ops;
}
