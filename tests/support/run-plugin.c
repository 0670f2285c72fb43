/* SPDX-License-Identifier: Apache-2.0
 *
 * run-plugin.c: runs one job by wsctl-local.so, as `wsctl submit --local` does, but without client code.
 * Usage:
 *     run-plugin [--workers N] [--timeout MSEC] [--plugin-dir DIR]... [--input FILE|-] [--verbose] PLUGIN[:FUNCTION]
 *                [ARG...]
 * Output goes to stdout, messages and error to stderr. Exits with the job's exit code. WSCTL_LOCAL names the module. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/wsctl/local-module.h"

#define DIRS_MAX 16

static int output(const void *data, size_t size, void *userdata)
{
    return fwrite(data, 1, size, stdout) != size;
}

static void message(int level, const char *text, void *userdata)
{
    fprintf(stderr, "%d: %s\n", level, text);
}

static _Noreturn void usage(void)
{
    fputs("run-plugin: see the top of tests/support/run-plugin.c\n", stderr);
    exit(64);
}

int main(int argc, char **argv)
{
    const char *dirs[DIRS_MAX];
    struct local_request q = {
        .size = sizeof(q), .input_fd = -1, .plugin_dirs = dirs, .output = output, .message = message};
    struct local_result result;
    bool verbose = false;
    int i;

    for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
            continue;
        }
        if (i + 1 == argc)
            usage();
        const char *value = argv[++i];
        if (strcmp(argv[i - 1], "--workers") == 0)
            q.workers = (unsigned)atoi(value);
        else if (strcmp(argv[i - 1], "--timeout") == 0)
            q.timeout_usec = strtoull(value, NULL, 10) * 1000;
        else if (strcmp(argv[i - 1], "--plugin-dir") == 0 && q.n_plugin_dirs < DIRS_MAX)
            dirs[q.n_plugin_dirs++] = value;
        else if (strcmp(argv[i - 1], "--input") == 0)
            q.input_fd = strcmp(value, "-") == 0 ? 0 : open(value, O_RDONLY | O_CLOEXEC);
        else
            usage();
        if (q.input_fd < 0 && strcmp(argv[i - 1], "--input") == 0) {
            perror(value);
            return 66;
        }
    }
    if (i == argc)
        usage();
    char *colon = strrchr(argv[i], ':');
    if (colon)
        *colon = 0;
    q.plugin = argv[i];
    q.function = colon ? colon + 1 : NULL;
    q.args = (const char *const *)(argv + i + 1);
    q.n_args = (size_t)(argc - i - 1);

    const char *module = getenv("WSCTL_LOCAL");
    void *handle = dlopen(module ? module : WSCTL_LOCAL, RTLD_NOW | RTLD_LOCAL);
    int (*run)(const struct local_request *, struct local_result *) = handle ? dlsym(handle, "wsctl_local_run") : NULL;
    if (!run) {
        fprintf(stderr, "run-plugin: %s\n", dlerror());
        return 70;
    }
    int r = run(&q, &result);
    if (r < 0) {
        fprintf(stderr, "run-plugin: %s: %s\n", q.plugin, result.error);
        return 66;
    }
    fflush(stdout);
    if (result.error[0])
        fprintf(stderr, "run-plugin: %s:%s: %s\n", result.plugin, result.function, result.error);
    if (verbose)
        fprintf(stderr, "%s:%s state=%d exit=%d status=\"%s\" run_usec=%llu cpu_usec=%llu\n", result.plugin,
                result.function, result.state, result.exit, result.status, (unsigned long long)result.run_usec,
                (unsigned long long)result.cpu_usec);
    return result.exit;
}
