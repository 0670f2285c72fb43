/* SPDX-License-Identifier: Apache-2.0
 *
 * arguments.c: the command line of wsd.
 * Owns nothing. [before the loop, and beside it at a reload]
 * Keeps: the command line is over the files, also when they are read again. */
#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/code.h"
#include "base/escape.h"
#include "config.h"
#include "daemon.h"

static const char help[] =
    "wsd - one resident work-stealing pool that every process can hand native work to\n"
    "\n"
    "usage: wsd [options]\n"
    "\n"
    "  --socket PATH       where to listen (default: WSD_SOCKET, else a user's own socket, else " SYSTEM_SOCKET ")\n"
    "  --config FILE       read this file instead of " WSD_SYSCONFDIR "/wsd/wsd.conf and wsd.conf.d/*.conf\n"
    "  --workers N         workers in each executor (default: the CPUs that wsd may use)\n"
    "  --plugin-dir DIR    where plugins are looked up; may be given several times\n"
    "  --state-dir DIR     where durable jobs are kept (default: STATE_DIRECTORY, else a user's own place, else\n"
    "                      " SYSTEM_STATE ")\n"
    "  --executor FILE     the wsd-executor to run (default: the installed one)\n"
    "  --spawner FILE      the wsd-spawn to run (default: the installed one), or the socket of wsd-spawn.service\n"
    "  --log-level LEVEL   emerg, alert, crit, err, warning, notice, info (default) or debug\n"
    "  --check-config      check the configuration and exit\n"
    "  --print-config      print the configuration in force and exit\n"
    "  --spawn             become wsd-spawn, for the wsd that all else is for: wsd-spawn.service does\n"
    "  -V, --version\n"
    "  -h, --help\n"
    "\n"
    "SIGTERM drains: no new jobs, the others end, then wsd exits; a second one ends at once. SIGHUP re-reads the\n"
    "configuration. See wsd(8) and wsd.conf(5).\n";

enum { OPT_CHECK = 256, OPT_PRINT, OPT_SPAWN, OPT_VERSION, OPT_HELP, OPT_SET };

struct flag {
    const char *name, *section, *key;
};

static const struct flag flags[] = {
    {"socket", "daemon", "socket"},           {"workers", "daemon", "workers"}, {"state-dir", "daemon", "state-dir"},
    {"executor", "daemon", "executor"},       {"spawner", "daemon", "spawner"}, {"log-level", "daemon", "log-level"},
    {"plugin-dir", "plugins", "directories"},
};

#define N_FLAGS (sizeof(flags) / sizeof(flags[0]))

void print_error(const char *format, ...)
{
    char text[2048], line[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    escape_text(line, sizeof(line), text);
    fprintf(stderr, "wsd: %s\n", line);
}

static int usage_error(const char *what, const char *why)
{
    print_error("%s: %s; see `wsd --help`", what, why);
    return CODE_USAGE;
}

/* Reports what getopt rejected: a long option as given, or the letter of a short one. */
static int option_error(int o, char **argv)
{
    char letter[3] = {'-', (char)optopt, 0};

    if (o == ':')
        return usage_error(argv[optind - 1], "wants a value");
    if (optopt == 0)
        return usage_error(argv[optind - 1], "no such option");
    return optopt >= OPT_CHECK ? usage_error(argv[optind - 1], "takes no value")
                               : usage_error(letter, "no such option");
}

int arguments_apply(struct config *c, int argc, char **argv, const char **ret_file, enum mode *ret_mode)
{
    struct option options[N_FLAGS + 7] = {
        {"config", required_argument, NULL, 'c'},       {"check-config", no_argument, NULL, OPT_CHECK},
        {"print-config", no_argument, NULL, OPT_PRINT}, {"spawn", no_argument, NULL, OPT_SPAWN},
        {"version", no_argument, NULL, OPT_VERSION},    {"help", no_argument, NULL, OPT_HELP}};
    char error[CONFIG_ERROR];
    bool first_dir = true;
    int o;

    for (size_t i = 0; i < N_FLAGS; i++)
        options[6 + i] = (struct option){flags[i].name, required_argument, NULL, OPT_SET + (int)i};
    optind = 0;
    opterr = 0;
    while ((o = getopt_long(argc, argv, "+:hV", options, NULL)) != -1) {
        if (o == 'c') {
            *ret_file = optarg;
        } else if (o == OPT_CHECK || o == OPT_PRINT || o == OPT_SPAWN) {
            *ret_mode = o == OPT_CHECK ? MODE_CHECK : o == OPT_PRINT ? MODE_PRINT : MODE_SPAWN;
        } else if (o == OPT_VERSION || o == 'V') {
            puts("wsd " WSD_VERSION);
            return -1;
        } else if (o == OPT_HELP || o == 'h') {
            fputs(help, stdout);
            return -1;
        } else if (o == ':' || o == '?') {
            return option_error(o, argv);
        } else {
            const struct flag *f = &flags[o - OPT_SET];
            _cleanup_(freep) char *joined = NULL;

            if (strcmp(f->name, "plugin-dir") == 0 && !first_dir &&
                asprintf(&joined, "%s:%s", c->plugin_dirs, optarg) < 0)
                return CODE_SOFTWARE;
            first_dir = first_dir && strcmp(f->name, "plugin-dir") != 0;
            if (config_set(c, f->section, f->key, joined ? joined : optarg, error) < 0) {
                print_error("--%s: %s", f->name, error);
                return CODE_USAGE;
            }
        }
    }
    return optind < argc ? usage_error(argv[optind], "no such argument") : 0;
}

int arguments_load(struct config *c, int argc, char **argv, const char **ret_file, enum mode *ret_mode)
{
    char error[CONFIG_ERROR] = "";
    struct config scratch;

    /* first pass, for --config: the other options override its file */
    if (config_init(&scratch) < 0)
        return CODE_SOFTWARE;
    int r = arguments_apply(&scratch, argc, argv, ret_file, ret_mode);
    config_deinit(&scratch);
    if (r != 0)
        return r;
    if (config_init(c) < 0)
        return CODE_SOFTWARE;
    r = *ret_file ? config_read(c, *ret_file, error) : config_read_standard(c, WSD_SYSCONFDIR "/wsd", error);
    if (r == 0)
        r = config_check(c, error);
    if (r < 0) {
        print_error("%s", *error ? error : strerror(-r));
        return r == -ENOENT ? CODE_NOT_FOUND : r == -EAGAIN ? CODE_BUSY : r == -ENOMEM ? CODE_SOFTWARE : CODE_USAGE;
    }
    return arguments_apply(c, argc, argv, ret_file, ret_mode);
}
