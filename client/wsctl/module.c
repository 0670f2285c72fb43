/* SPDX-License-Identifier: Apache-2.0
 *
 * module.c: loads what wsctl does not link.
 * Owns nothing: modules stay until wsctl ends. One thread. */
#include "module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/code.h"
#include "config.h"
#include "print.h"

bool module_in_build_tree(const char *relative, char *buffer, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", buffer, size - 1);
    char *slash;

    if (n <= 0)
        return false;
    buffer[n] = 0;
    slash = strrchr(buffer, '/');
    if (!slash || (size_t)snprintf(slash + 1, size - (size_t)(slash + 1 - buffer), "%s", relative) >=
                      size - (size_t)(slash + 1 - buffer))
        return false;
    return access(buffer, F_OK) == 0;
}

void *module_symbol(const char *what, const char *directory, const char *name, const char *symbol)
{
    char path[4096], relative[256];

    snprintf(relative, sizeof(relative), "%s%s", directory, name);
    if (!module_in_build_tree(relative, path, sizeof(path)))
        snprintf(path, sizeof(path), "%s/%s", WSD_MODULE_DIR, name);

    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found = handle ? dlsym(handle, symbol) : NULL;

    if (!found)
        ctl_error(CODE_NOT_FOUND, what, "%s", dlerror());
    return found;
}
