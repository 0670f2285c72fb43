/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz-wsd.c: any command line through wsd's own main(), with --check-config before it so that nothing is started.
 * Input: the arguments one behind the other, each ending in NUL. The linker puts stand-ins where files would be read:
 * fuzz-configuration.c has those.
 * Keeps: exit code 0 or 64, and 64 with words that begin with `wsd: ` and name an argument or an option that was
 * given. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/escape.h"
#include "configuration/check.h"
#include "configuration/configuration.h"

#define ARGS_MAX 64
#define LINE_CUT (2048u - 1u - ESCAPE_ROOM) /* print_error(): a line that was cut has at least so many bytes */

int wsd_main(int argc, char **argv);
int __wrap_config_read(struct config *c, const char *path, char *error);
int __wrap_config_read_standard(struct config *c, const char *directory, char *error);

int __wrap_config_examine(const struct config *c, void (*say)(bool warning, const char *text, void *userdata),
                          void *userdata);

int __wrap_config_examine(const struct config *c, void (*say)(bool warning, const char *text, void *userdata),
                          void *userdata)
{
    FUZZ_CHECK(c->plugin_dirs && say);
    return 0;
}

int __wrap_config_read(struct config *c, const char *path, char *error)
{
    FUZZ_CHECK(c->plugin_dirs && path);
    return 0;
}

int __wrap_config_read_standard(struct config *c, const char *directory, char *error)
{
    FUZZ_CHECK(c->plugin_dirs && directory);
    return 0;
}

/* Whether it begins with a text, as a terminal may be given it. The words are cut where they get too long for a
 * line. */
static bool begins_with(const char *said, const char *text)
{
    size_t room = ESCAPE_ROOM * strlen(text) + 1;
    char *shown = malloc(room);

    FUZZ_CHECK(shown);
    size_t n = escape_text(shown, room, text), all = strcspn(said, "\n");
    bool r = (strncmp(said, shown, n) == 0 && said[n] == ':') || (all >= LINE_CUT && strncmp(said, shown, all) == 0);

    free(shown);
    return r;
}

/* The first word behind `wsd: ` is one that was given: `ARGUMENT: why`, or `--OPTION: why`. */
static bool names_an_argument(const char *said, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (begins_with(said, argv[i]))
            return true;
        for (const char *letter = argv[i]; argv[i][0] == '-' && *letter; letter++)
            if (begins_with(said, (char[]){'-', *letter, 0}))
                return true;
    }
    /* an option that was shortened or has its value behind an equals sign is named in full */
    if (strncmp(said, "--", 2) != 0)
        return false;
    for (int i = 2; i < argc; i++) {
        size_t n = strcspn(argv[i], "=");

        if (n >= 3 && strncmp(said, argv[i], n) == 0)
            return true;
    }
    return false;
}

static void check_said(char *said, size_t n, int exit, int argc, char **argv)
{
    FUZZ_CHECK(exit == 0 || exit == 64);
    FUZZ_CHECK((exit == 0) == (n == 0));
    if (exit == 0)
        return;
    FUZZ_CHECK(strncmp(said, "wsd: ", 5) == 0 && said[n - 1] == '\n');
    FUZZ_CHECK(names_an_argument(said + 5, argc, argv));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *null;
    char *argv[ARGS_MAX + 3] = {(char[]){"wsd"}, (char[]){"--check-config"}}, *all = malloc(size + 1), *said = NULL;
    FILE *out = stdout, *error = stderr, *to;
    int argc = 2, exit;
    size_t n = 0;

    if (!null)
        null = fopen("/dev/null", "we");
    to = open_memstream(&said, &n);
    FUZZ_CHECK(all && to && null);
    memcpy(all, data, size);
    all[size] = 0;
    for (size_t at = 0; at < size && argc <= ARGS_MAX; at += strlen(all + at) + 1)
        argv[argc++] = all + at;
    stdout = null;
    stderr = to;
    exit = wsd_main(argc, argv);
    fclose(to);
    stdout = out;
    stderr = error;
    check_said(said, n, exit, argc, argv);
    free(said);
    free(all);
    return 0;
}
