/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-configuration.c: any bytes as wsd.conf.
 * Keeps: A file is taken whole, or refused with one line that names it. Nothing in it is cut off or ignored. What is in
 * force can be printed, and reads back as the same. */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "configuration/configuration.h"
#include "configuration/print.h"

static char path[32];
static int file = -1;

static int read_bytes(struct config *c, const void *data, size_t size)
{
    char error[CONFIG_ERROR] = "";
    int r;

    if (file < 0) {
        file = memfd_create("wsd.conf", MFD_CLOEXEC);
        FUZZ_CHECK(fchmod(file, 0600) == 0); /* what others can write, root's wsd does not read */
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    FUZZ_CHECK(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    r = config_read(c, path, error);
    FUZZ_CHECK(r == 0 || r == -EINVAL);
    FUZZ_CHECK(memchr(error, 0, sizeof(error)) && !strchr(error, '\n'));
    FUZZ_CHECK((r == 0) == (*error == 0) && (r == 0 || strncmp(error, path, strlen(path)) == 0));
    return r;
}

static void print(const struct config *c, char **ret_text, size_t *ret_size)
{
    FILE *to = open_memstream(ret_text, ret_size);

    FUZZ_CHECK(to);
    (void)config_print(c, to);
    FUZZ_CHECK(fclose(to) == 0);
}

/* The name of a plugin is the whole name that stands there. */
static void check_plugins(const struct config *c, const uint8_t *data, size_t size)
{
    char section[sizeof(c->plugins[0].name) + 16];

    FUZZ_CHECK(c->n_plugins <= CONFIG_PLUGINS_MAX);
    for (uint32_t i = 0; i < c->n_plugins; i++) {
        int n = snprintf(section, sizeof(section), "[plugin %s]", c->plugins[i].name);

        FUZZ_CHECK(c->plugins[i].name[0] && memmem(data, size, section, (size_t)n));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c = {0}, again = {0};
    char *first = NULL, *second = NULL;
    size_t n_first, n_second;

    FUZZ_CHECK(config_init(&c) == 0 && config_init(&again) == 0);
    if (read_bytes(&c, data, size) == 0) {
        FUZZ_CHECK(!memchr(data, 0, size));
        FUZZ_CHECK(c.plugin_dirs && *c.plugin_dirs && c.executor && *c.executor);
        FUZZ_CHECK(c.workers <= JOBS_WORKERS_MAX && c.limits.jobs >= 1 && c.limits.input >= 1);
        check_plugins(&c, data, size);
        print(&c, &first, &n_first);
        FUZZ_CHECK(read_bytes(&again, first, n_first) == 0);
        print(&again, &second, &n_second);
        FUZZ_CHECK(n_first == n_second && memcmp(first, second, n_first) == 0);
    }
    free(first);
    free(second);
    config_deinit(&c);
    config_deinit(&again);
    return 0;
}
